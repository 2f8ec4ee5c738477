"""CMUdict by the split of the PRONALSYL challenge of 2007, on which the literature reports.

The text is CMUdict (BSD-style licence, Carnegie Mellon University), without stress, as it lies in
test/g014b2b of https://github.com/AdolfVonKleist/Phonetisaurus (BSD-3-Clause).
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow_datasets as tfds

from bahdanau_jax.data.datasets.raw_files import RawFiles, read_raw_files
from bahdanau_jax.data.datasets.text_builder import TextBuilder

_COMMIT = "f08d3dfb10b8d619e665a9581d2a327bcc2504f7"
ADDRESS = f"https://raw.githubusercontent.com/AdolfVonKleist/Phonetisaurus/{_COMMIT}/test/g014b2b"
# Of the files at that commit.
SHA256 = {
    "g014b2b.train": "5882433c3a14a9a0614b5f724ce74872851092e816852c82d6b74913b2085384",
    "g014b2b.ref": "b1f24ab99ae8be1d37ee951984646a248c4fd5ae8b0a24a2f4ba2cfa0e2fc46a",
}
# Of the tables that `divide` and `table` make of them: earlier versions of this project had them
# made by hand, in a folder of the same name.
TABLES_SHA256 = {
    "train.tsv": "34909e4998b707b19e8b33ac364711ffe3e9d9c0b00a66be63167c5ae9b10532",
    "dev.tsv": "ba1a800d85a72f24e12265e1638de52e52b9eaf512823738052ac49fe3d9ee74",
    "test.tsv": "b1f24ab99ae8be1d37ee951984646a248c4fd5ae8b0a24a2f4ba2cfa0e2fc46a",
}
DEV_WORDS = 2670  # as many as the literature's own development words, which aren't public


class Entry(NamedTuple):
    """A word, as `AACHEN`, and pronunciations of it, as `AA K AH N`."""

    word: str
    pronunciations: tuple[str, ...]


class Pronalsyl(TextBuilder):
    """106,837 words for training and development, 12,000 for the test; no word is in two splits.

    Features: `word` and `pronunciations`. An example of `train` is one pronunciation, 110,611 in
    all; one of `validation` (2,670) or `test` (12,000) is a word with all of its pronunciations.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="The CMU Pronouncing Dictionary by the split of PRONALSYL 2007.",
            homepage="https://github.com/AdolfVonKleist/Phonetisaurus",
            license="BSD-style, Carnegie Mellon University",
            features=tfds.features.FeaturesDict(
                {
                    "word": tfds.features.Text(),
                    "pronunciations": tfds.features.Sequence(tfds.features.Text()),
                }
            ),
            disable_shuffling=True,  # the files' order
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict]]]:
        del dl_manager  # it would keep the files
        raw = RawFiles(self.name, "cmudict-pronalsyl", ADDRESS, SHA256)
        contents = read_raw_files(raw, self.data_dir_root, derived=TABLES_SHA256)
        texts = {name: content.decode("ascii").split("\n") for name, content in contents.items()}
        if "train.tsv" in texts:
            train, dev = table(texts["train.tsv"]), table(texts["dev.tsv"])
            test = table(texts["test.tsv"])
        else:
            train, dev = divide(table(texts["g014b2b.train"]), DEV_WORDS)
            test = table(texts["g014b2b.ref"])
        return {
            split: self._generate_examples(entries)
            for split, entries in (("train", train), ("validation", dev), ("test", test))
        }

    def _generate_examples(self, entries: list[Entry]) -> Iterator[tuple[int, dict]]:
        for key, (word, pronunciations) in enumerate(entries):
            yield key, {"word": word, "pronunciations": list(pronunciations)}


def table(lines: Iterable[str]) -> list[Entry]:
    """Reads lines of a word and its pronunciations, with tabs between them; skips blank lines."""
    rows = [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip()]
    return [Entry(word, tuple(pronunciations)) for word, *pronunciations in rows]


def divide(entries: list[Entry], dev_words: int) -> tuple[list[Entry], list[Entry]]:
    """Takes development words out of the training list.

    Args:
      entries: one for each pronunciation.
      dev_words: how many words to take: those with the smallest SHA-256.

    Returns:
      The other entries, in their order; and one for each word taken, in the words' order, with all
      of its pronunciations.
    """
    pronunciations: dict[str, list[str]] = {}
    for entry in entries:
        pronunciations.setdefault(entry.word, []).extend(entry.pronunciations)
    words = sorted(pronunciations, key=lambda word: hashlib.sha256(word.encode()).digest())
    dev = [Entry(word, tuple(pronunciations[word])) for word in sorted(words[:dev_words])]
    taken = {entry.word for entry in dev}
    return [entry for entry in entries if entry.word not in taken], dev
