"""Which pairs make up batch number k: a pure function of the order's seed and of k.

How many batches an epoch has follows from the lengths alone. The seed and the epoch decide which
pairs are in each of them, by one of the two orders of `epochs.py`. So a run resumes at any k at
the price of one shuffle.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bahdanau_jax.data.epochs import Epoch, GroupedByShape, SortedPools
from bahdanau_jax.data.shapes import round_up
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.training_links import LinkStore
from bahdanau_jax.errors import InputError

_FULL_BATCH_LENGTH = 128  # longer sentences are evaluated fewer at a time


class Batch(NamedTuple):
    """Padded pairs; a row of nothing but `PAD` fills the batch up and has no weight.

    Attributes:
      source: int32[B, S], ids, the end mark, then `PAD`.
      target: int32[B, T], the same.
      links: float32[B, T, S], what `LinkStore.weights` returns; None where no links are given.
    """

    source: np.ndarray
    target: np.ndarray
    links: np.ndarray | None = None


def blank_batch(rows: int, source: int, target: int, linked: bool) -> Batch:
    """Returns a batch of nothing but `PAD`, of the shapes that a training step is compiled for.

    Args:
      rows: B.
      source: S.
      target: T.
      linked: whether the batches of the run have links.
    """
    links = np.zeros((rows, target, source), np.float32) if linked else None
    return Batch(np.zeros((rows, source), np.int32), np.zeros((rows, target), np.int32), links)


class Batcher:
    """The batches of a training run, for one of the processes that share it.

    At most one batch of an epoch has fewer pairs than rows. The orders come from NumPy's
    Generator, whose streams may change between NumPy's versions.

    Attributes:
      pairs: pairs of an epoch.
      left_out: pairs of the store that are longer than `max_length` on a side.
      batches_per_epoch: batches in which each of the pairs occurs once.
      padding_share: share of the positions of an epoch's batches that hold no token; with pools,
        in which epochs differ, of one that stands for all.
      shapes: (B, S, T) of the batches that occur, with pools that may, over all processes, the
        largest first.
    """

    def __init__(
        self,
        store: TokenStore,
        *,
        seed: int,
        batch_size: int,
        batch_tokens: int = 0,
        max_length: int,
        shapes: int = 12,
        pool: int = 0,
        links: LinkStore | None = None,
        multiple: int = 1,
        process_index: int = 0,
        process_count: int = 1,
    ):
        """Chooses shapes and lays the epoch out.

        Args:
          store: the training pairs.
          seed: of the order.
          batch_size: rows of a batch, over all processes.
          batch_tokens: rows times the longer of S and T, at most; 0: `batch_size` counts.
          max_length: tokens a side, end mark not counted; longer pairs are left out.
          shapes: padded (S, T), at most.
          pool: batches of `batch_size` that are read and sorted by length together; 0: batches
            are filled by shape.
          links: of the pairs, which then come with every batch; None: there are none.
          multiple: batches are filled up to rows that this divides (the number of devices). It
            doesn't change which pairs are in which row of which batch.
          process_index: which part of each batch this process reads.
          process_count: parts of a batch.

        Raises:
          InputError: no pair is short enough, or `batch_tokens` can't hold the longest.
        """
        self._store, self._links, self._seed = store, links, seed
        self._process_index, self._process_count = process_index, process_count
        self._kept = kept = _short_enough(store, max_length)
        self.pairs, self.left_out = len(kept), len(store) - len(kept)
        source, target = store.source_lengths[kept], store.target_lengths[kept]
        if batch_tokens:
            _check_batch_tokens(batch_tokens, int(max(source.max(), target.max())))
        self._order = order = (
            SortedPools(source, target, shapes, batch_size, pool)
            if pool
            else GroupedByShape(source, target, shapes, batch_size, batch_tokens)
        )
        self.batches_per_epoch = int(order.batches.sum())
        multiple = math.lcm(multiple, process_count)
        self._filled = -(-order.rows // multiple) * multiple
        positions = int(order.batches @ (self._filled * order.sizes.sum(axis=1)))
        self.padding_share = 1 - (int(source.sum()) + int(target.sum())) / positions
        possible = [self._padded(int(shape)) for shape in order.occurring]
        self.shapes = sorted(possible, key=lambda s: (s[0] * s[1] * s[2], s), reverse=True)
        self._epoch: tuple[int, Epoch] | None = None

    def indices(self, k: int) -> np.ndarray:
        """Returns int64[n], the store's numbers of the pairs in batch k's first n rows, k >= 0."""
        epoch, place = self._locate(k)
        return self._kept[epoch.pairs[epoch.begins[place] : epoch.ends[place]]]

    def shape(self, k: int) -> tuple[int, int, int]:
        """Returns (B, S, T) of batch k over all processes, k >= 0; reads no pair."""
        epoch, place = self._locate(k)
        return self._padded(int(epoch.shapes[place]))

    def batch(self, k: int) -> Batch:
        """Reads this process's part of the run's batch number k.

        Args:
          k: number of the batch, from 0; epochs follow one another.

        Returns:
          The batch, B / process_count rows of it.
        """
        rows, source, target = self.shape(k)
        rows //= self._process_count
        pairs = self.indices(k)[rows * self._process_index : rows * (self._process_index + 1)]
        links = None if self._links is None else self._links.weights(pairs, rows, source, target)
        sides = self._store.sources(pairs, rows, source), self._store.targets(pairs, rows, target)
        return Batch(*sides, links)

    def _padded(self, shape: int) -> tuple[int, int, int]:
        """Returns (B, S, T) of the batches of a shape, given its number."""
        source, target = self._order.sizes[shape]
        return int(self._filled[shape]), int(source), int(target)

    def _locate(self, k: int) -> tuple[Epoch, int]:
        """Returns the epoch of batch k, and its place there."""
        if k < 0:
            raise ValueError(f"there is no batch {k}")
        number, place = divmod(k, self.batches_per_epoch)
        if self._epoch is None or self._epoch[0] != number:
            entropy = np.random.SeedSequence(self._seed % 2**64, spawn_key=(number,))
            self._epoch = (number, self._order.epoch(np.random.default_rng(entropy)))
        return self._epoch[1], place


def evaluation_batches(
    store: TokenStore, batch_size: int, *, multiple: int = 1
) -> Iterator[tuple[np.ndarray, Batch]]:
    """Reads every pair once, however long, for the likelihood of given targets.

    Pairs come by length, the longest first, so that what doesn't fit into memory fails at once
    and the batch that isn't full is a short one. Rows are the same throughout but for very long
    sentences, and S and T are rounded up by `round_up`, so that few programs are compiled.

    Args:
      store: the pairs.
      batch_size: rows of a batch; fewer where the store has fewer pairs.
      multiple: batches are filled up to rows that this divides (the number of devices).

    Yields:
      The numbers of the pairs in the batch's first n rows, int64[n], and the batch; the other
      rows are filler.
    """
    lengths = (store.source_lengths, store.target_lengths)
    for rows, pairs, (source, target) in _by_length(lengths, batch_size, multiple):
        yield pairs, Batch(store.sources(pairs, rows, source), store.targets(pairs, rows, target))


def decoding_batches(
    store: TokenStore, batch_size: int, *, multiple: int = 1
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Reads every source sentence once, as `evaluation_batches`; targets play no part.

    Yields:
      The numbers of the pairs in the first n rows, int64[n], and the sources, int32[B, S].
    """
    for rows, pairs, (source,) in _by_length((store.source_lengths,), batch_size, multiple):
        yield pairs, store.sources(pairs, rows, source)


def _by_length(
    lengths: tuple[np.ndarray, ...], batch_size: int, multiple: int
) -> Iterator[tuple[int, np.ndarray, list[int]]]:
    """Groups sentences of similar rounded lengths, the longest first.

    Yields:
      The rows of a group, its members, and the width of each side.
    """
    total = len(lengths[0])
    usual = min(batch_size, 1 << max(total - 1, 0).bit_length())
    rounded = [_rounded(side) for side in lengths]
    order = np.lexsort(rounded[::-1])[::-1]
    begin = 0
    while begin < total:
        longest = max(int(side[order[begin]]) for side in rounded)
        rows = _rows_of_length(usual, longest)
        group = order[begin : begin + rows]
        yield -(-rows // multiple) * multiple, group, [int(side[group].max()) for side in rounded]
        begin += rows


def _rows_of_length(rows: int, longest: int) -> int:
    """Returns fewer rows for long sentences: an alignment grows with the square of the length."""
    if longest <= _FULL_BATCH_LENGTH:
        return rows
    fitting = int(rows * (_FULL_BATCH_LENGTH / longest) ** 2)
    return 1 << max(fitting.bit_length() - 1, 0)


def _rounded(lengths: np.ndarray) -> np.ndarray:
    table = np.array([round_up(length) for length in range(lengths.max(initial=0) + 1)])
    return table[lengths]


def _short_enough(store: TokenStore, max_length: int) -> np.ndarray:
    """Returns int64[N], the pairs of at most `max_length` tokens a side, end mark not counted."""
    if len(store) == 0:
        raise InputError("there are no training pairs; check data.source")
    longer = np.maximum(store.source_lengths, store.target_lengths) - 1
    kept = np.flatnonzero(longer <= max_length)
    if len(kept) == 0:
        raise InputError(
            f"data.max_length is {max_length}, but the longer side of every training pair has "
            f"between {longer.min()} and {longer.max()} tokens; raise data.max_length"
        )
    return kept


def _check_batch_tokens(batch_tokens: int, longest: int) -> None:
    if batch_tokens < longest:
        raise InputError(
            f"train.batch_tokens is {batch_tokens}, but the longest training sentence has "
            f"{longest} tokens, end mark counted; raise train.batch_tokens or lower data.max_length"
        )
