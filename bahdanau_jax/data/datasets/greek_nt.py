"""The Greek New Testament and the Berean Standard Bible, verse by verse, aligned by hand.

Everything is read from data files that the PyPI package `bible-alignments` carries: the words of
the SBL Greek New Testament (CC BY 4.0, Society of Biblical Literature and Logos Bible Software),
those of the Berean Standard Bible (public domain), and alignment records between them (CC BY 4.0,
Biblica). The package's own code is neither imported nor needed.
"""

import importlib.metadata
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow_datasets as tfds

from bahdanau_jax.data.datasets.text_builder import TextBuilder
from bahdanau_jax.errors import InputError

# Numbers of books, as the first two digits of a verse's number have them.
DEV_BOOKS = ("48", "60")  # Galatians, 1 Peter
TEST_BOOKS = ("41", "45")  # Mark, Romans

_FILES = ("SBLGNT.tsv", "nt_BSB.tsv", "SBLGNT-BSB-manual.json")


class Verse(NamedTuple):
    """One verse in both languages, and its links between words, which spaces separate."""

    number: str  # book, chapter, verse: two digits and twice three, as 41001001
    greek: str  # without punctuation, as the alignment's source text has it
    english: str  # with punctuation, as it is printed
    links: str  # `i-j` sure, `i?j` possible: Greek word i, English word j, counted from 0


class GreekNt(TextBuilder):
    """Verses of the Greek New Testament with their English, 7,936 in version 0.4.2.

    Features: `verse`, `greek`, `english` and `links`, as of `Verse`. Split by book: `test` is Mark
    and Romans, `validation` Galatians and 1 Peter, `train` all others.
    """

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description="The New Testament in Greek and English, with manual word alignments.",
            homepage="https://github.com/Clear-Bible/Alignments",
            license="CC BY 4.0 (Greek text, alignments), public domain (English text)",
            features=tfds.features.FeaturesDict(
                {"verse": text, "greek": text, "english": text, "links": text}
            ),
            disable_shuffling=True,  # the order of the books
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict]]]:
        del dl_manager  # nothing is downloaded
        greek, english, records = _read_files()
        verses: dict[str, list[Verse]] = {"train": [], "validation": [], "test": []}
        for verse in parse(greek.split("\n"), english.split("\n"), json.loads(records)["records"]):
            verses[split_of(verse.number)].append(verse)
        return {split: self._generate_examples(verses[split]) for split in verses}

    def _generate_examples(self, verses: list[Verse]) -> Iterator[tuple[int, dict]]:
        for key, (number, greek, english, links) in enumerate(verses):
            yield key, {"verse": number, "greek": greek, "english": english, "links": links}


def split_of(number: str) -> str:
    """Returns `train`, `validation` or `test`, by the book of a verse's number."""
    if number[:2] in TEST_BOOKS:
        return "test"
    return "validation" if number[:2] in DEV_BOOKS else "train"


def parse(
    greek: Iterable[str], english: Iterable[str], records: Iterable[dict[str, Any]]
) -> list[Verse]:
    """Joins words to verses, and records to links between words.

    A record says that some Greek tokens and some English ones translate each other. Where it has
    one token on a side, that token is linked to each on the other side, and the links are sure.
    Where it has several on both sides, a phrase stands for a phrase; the records don't say which
    word of it stands for which, so that all its pairs are possible links and none is sure (as Och
    and Ney 2003, section 4, have annotators do).

    Args:
      greek: lines of `SBLGNT.tsv`, the header first: token, …, text, ….
      english: lines of `nt_BSB.tsv`, the header first: token, verse, text, whether the next token
        follows without a space, ….
      records: each `{"source": [Greek tokens], "target": [English tokens], …}`.

    Returns:
      The verses that both texts have, in the order of the Greek. A link from a verse into another
      one is left out. English words are what spaces separate: a token of punctuation belongs to
      the word that it is written to.
    """
    greek_words: dict[str, list[str]] = {}
    english_texts: dict[str, str] = {}
    places: dict[str, tuple[str, int]] = {}  # of each token: its verse, and its word there
    for token, _, text, *_ in _columns(greek):
        number = token[1:9]
        words = greek_words.setdefault(number, [])
        places[token] = number, len(words)
        words.append(text)
    for token, number, text, joined, *_ in _columns(english):
        before = english_texts.get(number, "")
        places[token] = number, before.count(" ")
        english_texts[number] = before + text + ("" if joined else " ")
    links = {number: {} for number in greek_words if number in english_texts}
    for record in records:
        mark = "?" if min(len(record["source"]), len(record["target"])) > 1 else "-"
        for source in record["source"]:
            for target in record["target"]:
                (number, i), (other, j) = places[source], places[target]
                # Of two records that give the same pair of words, the sure one counts.
                if number == other and number in links and links[number].get((i, j)) != "-":
                    links[number][i, j] = mark
    return [
        Verse(
            number,
            " ".join(greek_words[number]),
            english_texts[number].rstrip(" "),
            " ".join(f"{i}{mark}{j}" for (i, j), mark in sorted(found.items())),
        )
        for number, found in links.items()
    ]


def _columns(lines: Iterable[str]) -> Iterator[list[str]]:
    rows = (line.rstrip("\r").split("\t") for line in lines)
    next(rows)  # the header
    return (row for row in rows if len(row) > 1)


def _read_files() -> list[str]:
    try:
        files = importlib.metadata.files("bible-alignments") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = {file.name: file for file in files}
    if not all(name in found for name in _FILES):
        # The package asks for Python 3.11 and for much that only its own code needs.
        raise InputError(
            "tfds:greek_nt is made from files of the package bible-alignments: pip install "
            "--no-deps --ignore-requires-python bible-alignments==0.4.2"
        )
    return [found[name].read_text(encoding="utf-8") for name in _FILES]
