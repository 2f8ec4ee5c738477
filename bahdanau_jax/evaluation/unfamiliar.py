"""Counts what a trained run is given that its training text didn't have, to tell it at the end."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence

from bahdanau_jax.data.vocabularies import Vocabulary
from bahdanau_jax.special_ids import UNK
from bahdanau_jax.terminal import counted, say

NAMED = 5  # words with unknown symbols, at most, in the order of their frequency


@dataclasses.dataclass
class Unfamiliar:
    """Sentences longer than those of training, and symbols that the vocabularies don't have.

    Attributes:
      limit: tokens, as `data.max_length`.
      noun: what is counted, as `line`.
    """

    limit: int
    noun: str
    longer: int = 0
    unknown: int = 0
    tokens: int = 0
    words: Counter[str] = dataclasses.field(default_factory=Counter)

    def add(self, *sides: tuple[Vocabulary, str, Sequence[int]]) -> None:
        """Counts a line, or a pair of sentences.

        Args:
          *sides: of each sentence its vocabulary, its text, and the ids of that.
        """
        self.longer += max(len(ids) for _, _, ids in sides) > self.limit
        for vocabulary, text, ids in sides:
            self.tokens += len(ids)
            if UNK in ids:
                self.unknown += list(ids).count(UNK)
                unknown = vocabulary.unknown_words(ids)
                self.words.update(itertools.compress(vocabulary.words(text), unknown))

    def tell(self) -> None:
        """Writes a line of each kind that there was, on standard error."""
        if self.longer:
            count = counted(self.longer, self.noun)
            say(f"longer than the {self.limit} tokens that training saw at most: {count}")
        if self.unknown:
            named = ", ".join(repr(word) for word, _ in self.words.most_common(NAMED))
            more = ", and others" if len(self.words) > NAMED else ""
            say(
                f"warning: {self.unknown:,} of {counted(self.tokens, 'token')} are unknown to the "
                f"model ({named}{more}); its vocabularies are made from its training text, and "
                "what it makes of others is a guess"
            )
