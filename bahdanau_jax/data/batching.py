"""Which pairs make up batch number k: a pure function of the order's seed and of k.

An epoch's batches have a fixed layout: how many there are, and the shape and rows of each, follow
from the lengths alone. The seed and the epoch decide which pairs of a shape come first and in
which order the batches are read. So a run resumes at any k at the price of one shuffle.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bahdanau_jax.data.layout import Layout
from bahdanau_jax.data.shapes import assign_shapes, choose_shapes, length_histogram, round_up
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError

_FULL_BATCH_LENGTH = 128  # longer sentences are evaluated fewer at a time
_WINDOWS_COUNTED = 500  # windows that stand for all of them while shapes are compared


class Batch(NamedTuple):
    """Padded pairs; a row of nothing but `PAD` fills the batch up and has no weight.

    Attributes:
      source: int32[B, S], ids, the end mark, then `PAD`.
      target: int32[B, T], the same.
    """

    source: np.ndarray
    target: np.ndarray


class Batcher:
    """The batches of a training run, for one of the processes that share it.

    The pairs of one shape come in a shuffled order and fill the batches that `Layout` has for
    them; then the batches are shuffled. At most one batch of an epoch has fewer pairs than rows.
    The orders come from NumPy's Generator, whose streams may change between NumPy's versions.

    Attributes:
      pairs: pairs of an epoch.
      left_out: pairs of the store that are longer than `max_length` on a side.
      batches_per_epoch: batches in which each of the pairs occurs once.
      padding_share: share of the positions of an epoch's batches that hold no token.
      shapes: (B, S, T) of the batches that occur, over all processes, the largest first.
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
          pool: batches of a window; 0: the whole epoch is one.
          multiple: batches are filled up to rows that this divides (the number of devices). It
            doesn't change which pairs are in which row of which batch.
          process_index: which part of each batch this process reads.
          process_count: parts of a batch.

        Raises:
          InputError: no pair is short enough, or `batch_tokens` can't hold the longest.
        """
        self._store, self._seed = store, seed
        self._process_index, self._process_count = process_index, process_count
        kept = _short_enough(store, max_length)
        self.pairs, self.left_out = len(kept), len(store) - len(kept)
        source, target = store.source_lengths[kept], store.target_lengths[kept]
        if batch_tokens:
            _check_batch_tokens(batch_tokens, int(max(source.max(), target.max())))

        def padded(sizes: np.ndarray, pairs: np.ndarray) -> int:
            rows = _rows(sizes, batch_size, batch_tokens)
            return Layout(sizes, rows, pairs, pool, _WINDOWS_COUNTED).padded

        histogram = length_histogram(source, target)
        self._sizes = choose_shapes(histogram, shapes, padded)
        assigned = assign_shapes(histogram, self._sizes)
        members = np.bincount(assigned, minlength=len(self._sizes))
        layout = Layout(self._sizes, _rows(self._sizes, batch_size, batch_tokens), members, pool)
        # A stable sort of bytes takes NumPy's radix sort: linear in the number of pairs.
        self._by_shape = kept[np.argsort(assigned, kind="stable")]
        self._shape_ends = np.cumsum(members)
        self._slots, self._begins, self._ends, self._shape = layout.place()
        self.batches_per_epoch = len(self._begins)
        multiple = math.lcm(multiple, process_count)
        self._filled = -(-layout.rows // multiple) * multiple
        batches = np.bincount(self._shape, minlength=len(self._sizes))
        positions = int(batches @ (self._filled * self._sizes.sum(axis=1)))
        self.padding_share = 1 - (int(source.sum()) + int(target.sum())) / positions
        occurring = [
            (int(self._filled[shape]), int(self._sizes[shape, 0]), int(self._sizes[shape, 1]))
            for shape in np.flatnonzero(batches)
        ]
        self.shapes = sorted(occurring, key=lambda s: (s[0] * s[1] * s[2], s), reverse=True)
        self._epoch: tuple[int, np.ndarray, np.ndarray] | None = None

    def indices(self, k: int) -> np.ndarray:
        """Returns int64[n], the store's numbers of the pairs in batch k's first n rows, k >= 0."""
        order, number = self._locate(k)
        return order[self._slots[self._begins[number] : self._ends[number]]]

    def shape(self, k: int) -> tuple[int, int, int]:
        """Returns (B, S, T) of batch k over all processes, k >= 0; reads no pair."""
        _, number = self._locate(k)
        shape = self._shape[number]
        return int(self._filled[shape]), int(self._sizes[shape, 0]), int(self._sizes[shape, 1])

    def batch(self, k: int) -> Batch:
        """Reads this process's part of the run's batch number k.

        Args:
          k: number of the batch, from 0; epochs follow one another.

        Returns:
          The batch, B / process_count rows of it.
        """
        _, number = self._locate(k)
        shape = self._shape[number]
        rows = int(self._filled[shape]) // self._process_count
        pairs = self.indices(k)[rows * self._process_index : rows * (self._process_index + 1)]
        source, target = map(int, self._sizes[shape])
        return Batch(
            self._store.sources(pairs, rows, source), self._store.targets(pairs, rows, target)
        )

    def _locate(self, k: int) -> tuple[np.ndarray, int]:
        """Returns the order of the pairs in k's epoch, and the place of batch k in the layout."""
        if k < 0:
            raise ValueError(f"there is no batch {k}")
        epoch, place = divmod(k, self.batches_per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, *self._shuffle(epoch))
        _, order, batches = self._epoch
        return order, int(batches[place])

    def _shuffle(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs, shuffled among those of the same shape, and the batches' order."""
        entropy = np.random.SeedSequence(self._seed % 2**64, spawn_key=(epoch,))
        generator = np.random.default_rng(entropy)
        order = self._by_shape.copy()
        for group in np.split(order, self._shape_ends[:-1]):
            generator.shuffle(group)
        return order, generator.permutation(self.batches_per_epoch)


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


def _rows(sizes: np.ndarray, batch_size: int, batch_tokens: int) -> np.ndarray:
    """Returns int64[K], the rows of a batch of each shape."""
    if not batch_tokens:
        return np.full(len(sizes), batch_size)
    rows = batch_tokens // sizes.max(axis=1)
    # Rounded down to a multiple of up to eight, so that the usual numbers of devices need no
    # filler rows; never of the actual number, which must not change what is in a batch.
    step = np.where(rows < 16, 1, np.where(rows < 32, 2, np.where(rows < 64, 4, 8)))
    return rows // step * step


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
