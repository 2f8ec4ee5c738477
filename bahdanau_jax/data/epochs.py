"""The two orders of an epoch: batches of one shape's pairs, and pools that are sorted and cut.

Each is a function of the lengths and of a generator of random numbers; how many batches an epoch
has follows from the lengths alone.
"""

from typing import NamedTuple

import numpy as np

from bahdanau_jax.data.layout import Layout
from bahdanau_jax.data.shapes import assign_shapes, choose_shapes, length_histogram


class Epoch(NamedTuple):
    """What is in each batch of an epoch, in the order in which they are read.

    Attributes:
      pairs: int64[N], places among the pairs of the epoch.
      begins: int64[M], where in `pairs` each batch begins.
      ends: int64[M], the place after its last pair.
      shapes: int64[M], the place of its shape in `sizes`.
    """

    pairs: np.ndarray
    begins: np.ndarray
    ends: np.ndarray
    shapes: np.ndarray


class GroupedByShape:
    """The pairs of one shape, shuffled, fill the batches that `Layout` has for them.

    Then the batches are shuffled. At most one batch of an epoch has fewer pairs than rows.

    Attributes:
      sizes: int64[K, 2], padded (S, T), by ascending S + T.
      rows: int64[K], rows of a batch of each shape.
      batches: int64[K], batches of each shape in an epoch.
      occurring: int64[...], places in `sizes` of the shapes that occur.
    """

    def __init__(
        self,
        source: np.ndarray,
        target: np.ndarray,
        shapes: int,
        batch_size: int,
        batch_tokens: int,
    ):
        """Chooses shapes and lays the epoch out.

        Args:
          source: int[N], lengths, at least one; N >= 1.
          target: int[N], the same of the target side.
          shapes: padded (S, T), at most.
          batch_size: rows of a batch.
          batch_tokens: rows times the longer of S and T, at most; 0: `batch_size` counts.
        """

        def padded(sizes: np.ndarray, pairs: np.ndarray) -> int:
            return Layout(sizes, _rows(sizes, batch_size, batch_tokens), pairs).padded

        histogram = length_histogram(source, target)
        self.sizes = choose_shapes(histogram, shapes, padded)
        self.rows = _rows(self.sizes, batch_size, batch_tokens)
        assigned = assign_shapes(histogram, self.sizes)
        members = np.bincount(assigned, minlength=len(self.sizes))
        # A stable sort of bytes takes NumPy's radix sort: linear in the number of pairs.
        self._by_shape = np.argsort(assigned, kind="stable")
        self._shape_ends = np.cumsum(members)
        layout = Layout(self.sizes, self.rows, members)
        self._slots, self._begins, self._ends, self._shapes = layout.place()
        self.batches = np.bincount(self._shapes, minlength=len(self.sizes))
        self.occurring = np.flatnonzero(self.batches)

    def epoch(self, generator: np.random.Generator) -> Epoch:
        """Draws an epoch."""
        order = self._by_shape.copy()
        for group in np.split(order, self._shape_ends[:-1]):
            generator.shuffle(group)
        batches = generator.permutation(len(self._begins))
        begins, ends, shapes = (x[batches] for x in (self._begins, self._ends, self._shapes))
        return Epoch(order[self._slots], begins, ends, shapes)


class SortedPools:
    """Pairs are read in a shuffled order, some batches at a time: a pool, sorted and cut.

    Bahdanau et al. 2014, appendix B.2. A pool is sorted by the longer side of each pair, and its
    batches come from the shortest to the longest, as in GroundHog, the paper's code. Of the last
    pool the shortest batch has fewer pairs than rows, where the numbers don't divide.

    A batch is padded to the cheapest of few shapes that holds it. The shapes are those that cost
    an epoch of another order least, so that they don't depend on the run's seed.

    Attributes:
      sizes: int64[K, 2], padded (S, T), by ascending S + T.
      rows: int64[K], rows of a batch, all alike.
      batches: int64[K], batches of each shape in that other epoch.
      occurring: int64[K], places in `sizes` of the shapes that may occur: all.
    """

    def __init__(
        self, source: np.ndarray, target: np.ndarray, shapes: int, batch_size: int, pool: int
    ):
        """Cuts the epoch and chooses shapes.

        Args:
          source: int[N], lengths, at least one; N >= 1.
          target: int[N], the same of the target side.
          shapes: padded (S, T), at most.
          batch_size: rows of a batch.
          pool: batches that are read and sorted together, at least one.
        """
        self._source, self._target = source, target
        self._longer, self._read = np.maximum(source, target), pool * batch_size
        pairs = np.full(-(-len(source) // batch_size), batch_size)
        if ragged := len(source) % batch_size:
            pairs[len(source) // self._read * pool] = ragged
        self._ends = np.cumsum(pairs)
        self._begins = self._ends - pairs
        _, *longest = self._sorted(np.random.default_rng(0))
        # The longest of each side may meet in a batch of another order.
        held = [np.append(side, side.max()) for side in longest]
        self.sizes = choose_shapes(length_histogram(*held), shapes)
        self.rows = np.full(len(self.sizes), batch_size)
        self.batches = np.bincount(self._cheapest(*longest), minlength=len(self.sizes))
        self.occurring = np.arange(len(self.sizes))

    def epoch(self, generator: np.random.Generator) -> Epoch:
        """Draws an epoch."""
        order, *longest = self._sorted(generator)
        return Epoch(order, self._begins, self._ends, self._cheapest(*longest))

    def _sorted(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the pairs, int64[N], and the longest of each batch on each side, int[M]."""
        order = generator.permutation(len(self._source))
        pools = np.arange(len(order)) // self._read
        order = order[np.lexsort((self._longer[order], pools))]
        source, target = (
            np.maximum.reduceat(side[order], self._begins) for side in (self._source, self._target)
        )
        return order, source, target

    def _cheapest(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Returns the place of the cheapest shape that holds each batch, int64[M]."""
        longest = np.stack([source, target], axis=1)
        return (self.sizes[None] >= longest[:, None]).all(axis=2).argmax(axis=1)


def _rows(sizes: np.ndarray, batch_size: int, batch_tokens: int) -> np.ndarray:
    """Returns int64[K], the rows of a batch of each shape."""
    if not batch_tokens:
        return np.full(len(sizes), batch_size)
    rows = batch_tokens // sizes.max(axis=1)
    # Rounded down to a multiple of up to eight, so that the usual numbers of devices need no
    # filler rows; never of the actual number, which must not change what is in a batch.
    step = np.where(rows < 16, 1, np.where(rows < 32, 2, np.where(rows < 64, 4, 8)))
    return rows // step * step
