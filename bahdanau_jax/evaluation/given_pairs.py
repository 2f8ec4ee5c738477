"""Sentence pairs that a user gives: two files of lines, or a split of the run's corpus."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bahdanau_jax.data.corpus import normalize, source_text
from bahdanau_jax.data.gold_links import GoldLinks, read_gold
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run_data
from bahdanau_jax.evaluation.unfamiliar import Unfamiliar
from bahdanau_jax.lines import read_pairs
from bahdanau_jax.terminal import say
from bahdanau_jax.workdir import manifest

CHUNK = 4096  # pairs, or sentences to be decoded, that are sorted by length together, at most


class GivenTexts(NamedTuple):
    """Pairs as they are given, not read to their end."""

    pairs: Iterable[tuple[str, str]]  # source and target
    gold: list[GoldLinks] | None = None  # between the words of every pair
    origin: str = ""  # of the gold links

    def with_gold(self, run: TrainedRun, path: str, base: int | None = None) -> "GivenTexts":
        """Returns the pairs with gold links from a file; raises InputError as `read_gold` does."""
        pairs = list(self.pairs)
        return GivenTexts(pairs, read_links(run, path, pairs, base), path)


@dataclasses.dataclass(frozen=True)
class GivenPairs:
    """A few pairs, as text and as ids."""

    texts: list[tuple[str, str]]
    ids: list[tuple[list[int], list[int]]]  # without end marks

    @property
    def store(self) -> TokenStore:
        """The ids, for the functions that read batches."""
        return TokenStore.from_pairs(self.ids)


def given_texts(
    run: TrainedRun, directory: Path, source: str | None, target: str | None, split: str
) -> GivenTexts:
    """Opens the pairs that the flags name.

    Args:
      run: its corpus is read where no files are given.
      directory: the run's workdir.
      source: path of the sources, one a line.
      target: path of the targets; given with `source` or not at all.
      split: of the run's corpus, read where there are no files: sources and first references.

    Returns:
      The pairs; those of a split have the data set's gold links, where it has some.

    Raises:
      InputError: one file is given without the other, or the split can't be read.
    """
    if source and target:
        return GivenTexts(read_pairs(Path(source), Path(target)))
    if source or target:
        there, missing = ("source", "target") if source else ("target", "source")
        raise InputError(f"--{there} is given without --{missing}; give both, or --split alone")
    data = open_run_data(directory, run.config, say)
    manifest.check_fingerprints(directory, data.fingerprints(data.corpus.resolve_split(split)))
    pairs = ((x.source, x.references[0]) for x in data.corpus.examples(split))
    return GivenTexts(pairs, data.corpus.links(split), f"the links of {data.corpus.name}")


def read_links(
    run: TrainedRun, path: str, pairs: Iterable[tuple[str, str]], base: int | None = None
) -> list[GoldLinks]:
    """Reads gold links between the words of pairs, as the run divides them.

    Args:
      run: its vocabularies and its normalisation are used.
      path: of the links.
      pairs: source and target of each pair.
      base: as of `read_gold`.

    Raises:
      InputError: as `read_gold`.
    """
    source, target = run.vocabularies.source, run.vocabularies.target
    lowercase = run.config.data.lowercase
    texts = ((source_text(normalize(s, lowercase)), normalize(t, lowercase)) for s, t in pairs)
    return read_gold(path, [(source.words(s), target.words(t)) for s, t in texts], base)


def chunks(run: TrainedRun, texts: Iterable[tuple[str, str]]) -> Iterator[GivenPairs]:
    """Yields the pairs as a trained run reads them, `CHUNK` at a time.

    Sentences longer than those of training are used whole; at the end, a line says how many, and
    another how much of the text the model doesn't know.

    Args:
      run: its vocabularies and its normalisation are used.
      texts: source and target of each pair; either may be empty.
    """
    source, target = run.vocabularies.source, run.vocabularies.target
    lowercase = run.config.data.lowercase
    remaining, unfamiliar = iter(texts), Unfamiliar(run.config.data.max_length, "pair")
    while chunk := list(itertools.islice(remaining, CHUNK)):
        prepared = [
            (source_text(normalize(s, lowercase)), normalize(t, lowercase)) for s, t in chunk
        ]
        ids = [(source.encode(s), target.encode(t)) for s, t in prepared]
        for (s, t), (of_source, of_target) in zip(prepared, ids, strict=True):
            unfamiliar.add((source, s, of_source), (target, t, of_target))
        yield GivenPairs(prepared, ids)
    unfamiliar.tell()
