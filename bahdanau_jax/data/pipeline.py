"""From a configuration to what training and evaluation read: vocabularies and token stores."""

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import NamedTuple

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps, token_store, training_links
from bahdanau_jax.data.corpus import Corpus, Example, source_text
from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.data.token_store import StoreError, TokenStore
from bahdanau_jax.data.training_links import LinkStore
from bahdanau_jax.data.vocabularies import Vocabularies, build_vocabularies
from bahdanau_jax.data.vocabulary import split_words
from bahdanau_jax.durable import digest
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.setup import cache_directory
from bahdanau_jax.terminal import counted, say

# Where references belong that a source has several of, by the kind of source that says how.
TOGETHER = {
    "tsv": "on one line, with tabs between",
    "jsonl": "in one record, as a list",
    "parquet": "in one record, as a list",
    "csv": "in one record of JSON lines (jsonl:), as a list",
}


class EvaluationSplit(NamedTuple):
    """A split as evaluation reads it."""

    name: str
    examples: list[Example]
    pairs: TokenStore  # one pair a reference, for the likelihood of given targets
    sources: TokenStore  # one sentence an example, in order, for decoding; targets are empty
    # Of made-up data: for each example the source token that each target token is from.
    alignments: list[list[int]] | None = None
    # For each example the links between words of its source and its first reference.
    links: list[GoldLinks] | None = None


@dataclasses.dataclass(frozen=True)
class Data:
    """A corpus with its vocabularies.

    Attributes:
      corpus: where examples come from.
      vocabularies: of both sides.
    """

    corpus: Corpus
    vocabularies: Vocabularies

    def fingerprints(self, *splits: str) -> dict[str, str]:
        """Returns what identifies the text of splits, by `data/SPLIT`, and the vocabularies."""
        notes = cache_directory() / "fingerprints"
        texts = {
            f"data/{split}": file_stamps.remembered(
                notes,
                self.corpus.stamp(split),
                functools.partial(self.corpus.fingerprint, split),
            )
            for split in splits
        }
        for name, fingerprint in texts.items():
            self.corpus.confirm(name.removeprefix("data/"), fingerprint)
        return texts | {"vocabularies": self.vocabularies.fingerprint}

    def training_store(self, say: Callable[[str], None]) -> TokenStore:
        """Opens the training pairs as ids, after making them if this is the first time.

        Args:
          say: told what takes long.

        Returns:
          The store; it lies in the user's cache directory under a name that stands for the text
          and both vocabularies.
        """
        rule = "words at U+0020"  # ids of another rule aren't read again
        key = digest(repr([rule, *sorted(self.fingerprints("train").items())]).encode())
        stores = cache_directory() / "tokens"
        token_store.remove_unfinished(stores)
        source, target = self.vocabularies.source, self.vocabularies.target
        sizes = (source.size, target.size)
        try:
            return token_store.open(stores / key, sizes)
        except StoreError as error:
            if os.path.lexists(stores / key):
                say(f"warning: {stores / key} is damaged ({error}) and is made anew")
            say("turning the training text into ids")
        pairs = self.corpus.pairs()
        ids = ((source.encode(s), target.encode(t)) for s, t in pairs)
        store = token_store.build(stores / key, ids, sizes)
        if pairs.empty:
            say(f"left out for an empty side: {counted(pairs.empty, 'training pair')}")
        return store

    def training_links(
        self, config: DataConfig, tokens: TokenStore, say: Callable[[str], None]
    ) -> LinkStore | None:
        """Opens the links of the training pairs; None where `data.train_links` names none.

        Args:
          config: of the data.
          tokens: what `training_store` returned.
          say: told what takes long.

        Raises:
          InputError: they can't be read, or aren't those of the pairs.
        """
        if not config.train_links:
            return None
        text = repr(sorted(self.fingerprints("train").items()))
        return training_links.open_links(config, self.corpus, self.vocabularies, tokens, text, say)

    def training_splits(self, tell: Callable[[str], None] = say) -> list[EvaluationSplit]:
        """Reads what training evaluates: the development split, then every test split.

        Args:
          tell: told what should be looked at.

        Raises:
          InputError: there is no development split, or a split can't be read or is empty.
        """
        names = self.corpus.splits
        if "dev" not in names:
            raise InputError(
                f"{self.corpus.name} has no development split to choose the best "
                f"checkpoint by; its splits: {', '.join(names)}"
            )
        tests = [name for name in names if name.startswith("test")]
        return [self.evaluation_split(name, tell) for name in ("dev", *tests)]

    def evaluation_split(self, name: str, tell: Callable[[str], None] = say) -> EvaluationSplit:
        """Reads a split into memory.

        Args:
          name: any name that `Corpus.resolve_split` takes.
          tell: told what should be looked at.

        Raises:
          InputError: there is no such split, it can't be read, or it is empty.
        """
        name = self.corpus.resolve_split(name)
        examples = list(self.corpus.examples(name))
        if not examples:
            raise InputError(f"the split {name} is empty; fill it, or take it away")
        if advice := _repeated(self.corpus.name.partition(":")[0], name, examples):
            tell(advice)
        source, target = self.vocabularies.source, self.vocabularies.target
        ids = [source.encode(source_text(example.source)) for example in examples]
        pairs = [
            (sentence, target.encode(reference))
            for sentence, example in zip(ids, examples, strict=True)
            for reference in example.references
        ]
        return EvaluationSplit(
            name,
            examples,
            TokenStore.from_pairs(pairs),
            TokenStore.from_pairs([(sentence, []) for sentence in ids]),
            self._alignments(examples, ids),
            self.corpus.links(name),
        )

    def _alignments(self, examples: list[Example], ids: list[list[int]]) -> list[list[int]] | None:
        """Returns the alignments that the corpus knows, where its symbols are the tokens."""
        rule = self.corpus.alignment
        sources = [example.source for example in examples]
        pairs = zip(ids, sources, strict=True)
        if rule is None or any(len(i) != len(split_words(source)) for i, source in pairs):
            return None
        return [rule(source) for source in sources]


def _repeated(kind: str, name: str, examples: list[Example]) -> str:
    """Returns a warning where a source's references are apart; else nothing.

    Args:
      kind: of the source of data; those that can't hold several references have no warning.
      name: of the split.
      examples: of the split.
    """
    repeated = len(examples) - len({example.source for example in examples})
    if not repeated or kind not in TOGETHER:
        return ""
    noun = "line" if kind == "tsv" else "record"
    return (
        f"warning: {counted(repeated, noun)} of {name} with the source of another {noun}, each "
        "scored by its own reference alone; put all references of a source "
        f"{TOGETHER[kind]}"
    )


def open_data(
    config: DataConfig, vocabularies: Vocabularies | None, say: Callable[[str], None]
) -> Data:
    """Opens the corpus and the run's vocabularies, which are built where none are saved.

    Args:
      config: names the source and the kind of vocabulary.
      vocabularies: those that a run was trained with; None: they are built from the training split.
      say: told what takes long.

    Returns:
      Both.

    Raises:
      InputError: the corpus or a vocabulary file can't be used.
    """
    say(f"reading {config.source}")
    corpus = Corpus(config)
    if vocabularies is not None:
        return Data(corpus, vocabularies)
    say(f"building the vocabularies ({config.vocabulary.kind})")
    return Data(corpus, build_vocabularies(config.vocabulary, corpus.pairs()))
