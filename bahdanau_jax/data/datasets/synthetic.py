"""Made-up pairs whose alignment is known: sequences of letters reversed, or copied with changes.

Both tasks need every source letter at its own moment. A model that attends can look it up; one
that has to keep the whole source in a single vector can't, once the source is long.
"""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import tensorflow_datasets as tfds

from bahdanau_jax.data.datasets.text_builder import TextBuilder

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOWELS = "aeiou"  # copy_insert: MARKER stands before them in the target
SILENT = "hjqxz"  # copy_insert: missing from the target
MARKER = "+"
LONGEST = 40  # letters of a source


class Synthetic(TextBuilder, skip_registration=True):
    """Sources drawn at random, targets by rule; no source occurs twice, in any split.

    Features: `source` and `target`, symbols separated by spaces, as `d o g`. Lengths of sources
    are even from 1 to 40, but for the shortest, of which there aren't enough different ones.
    """

    VERSION = tfds.core.Version("1.0.0")
    SIZES: ClassVar[dict[str, int]] = {"train": 100_000, "validation": 1_000, "test": 2_000}

    @staticmethod
    def rule(letters: list[str]) -> list[tuple[str, int]]:
        """Returns the target symbols of a source, each with the source position that it is from.

        Args:
          letters: the source, from `LETTERS`.
        """
        raise NotImplementedError

    @classmethod
    def target(cls, source: str) -> str:
        """Returns the target of a source; both are symbols separated by spaces."""
        return " ".join(symbol for symbol, _ in cls.rule(source.split()))

    @classmethod
    def alignment(cls, source: str) -> list[int]:
        """Returns for each target symbol the source position that it is from, counted from 0.

        Args:
          source: letters separated by spaces.

        Returns:
          As many positions as the target has symbols; the end mark isn't one.
        """
        return [position for _, position in cls.rule(source.split())]

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text()
        return tfds.core.DatasetInfo(
            builder=self,
            description=type(self).__doc__,
            license="Apache-2.0",
            features=tfds.features.FeaturesDict({"source": text, "target": text}),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict]]]:
        del dl_manager  # nothing is downloaded
        sources = self.sources(sum(self.SIZES.values()))
        splits = {}
        for split, size in self.SIZES.items():
            splits[split] = self._generate_examples(sources[:size])
            sources = sources[size:]
        return splits

    def _generate_examples(self, sources: list[str]) -> Iterator[tuple[int, dict]]:
        for key, source in enumerate(sources):
            yield key, {"source": source, "target": self.target(source)}

    @classmethod
    def sources(cls, count: int) -> list[str]:
        """Draws sources, the same at every call.

        Args:
          count: how many.

        Returns:
          Different sources in random order: short and long ones are found all over the list.
        """
        # Only `random()` is promised to give the same numbers in every version of Python.
        draw = random.Random(0).random
        places: dict[str, float] = {}
        while len(places) < count:
            length = 1 + int(draw() * LONGEST)
            source = " ".join(LETTERS[int(draw() * len(LETTERS))] for _ in range(length))
            if source not in places and cls.target(source):
                places[source] = draw()
        # In the order in which they were drawn, the shortest would all be in the first split.
        return sorted(places, key=places.__getitem__)


class Reverse(Synthetic):
    """Sequences of letters, and the same from the last to the first."""

    @staticmethod
    def rule(letters: list[str]) -> list[tuple[str, int]]:
        """Returns the letters from the last to the first, each with its place in the source."""
        return [(letter, place) for place, letter in enumerate(letters)][::-1]


class CopyInsert(Synthetic):
    """Sequences of letters, and their copies without silent letters, with a mark before vowels.

    A mark's source position is that of its vowel: who writes it has to have seen the vowel.
    """

    @staticmethod
    def rule(letters: list[str]) -> list[tuple[str, int]]:
        """Returns the letters that aren't silent, and before each vowel `MARKER`."""
        target = []
        for place, letter in enumerate(letters):
            if letter in VOWELS:
                target.append((MARKER, place))
            if letter not in SILENT:
                target.append((letter, place))
        return target
