"""Few padded shapes for many lengths: which to compile, and which pair goes where.

A shape (S, T) holds the pairs of at most S source and T target tokens, end marks counted. Each
costs a compilation, and every pair costs S + T tokens of work in the shape that it goes to.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_SIDES = 96  # lengths of a side that are tried as sides of shapes; of more, every second, third, …
_SWEEPS = 5  # times that all shapes are shifted, at most


class LengthHistogram(NamedTuple):
    """How many pairs have which lengths, and which.

    Attributes:
      counts: int64[I, J], pairs whose source length is in bin i and target length in bin j.
      source: int64[I], the largest length in each bin, ascending; the last is the largest of all.
      target: int64[J], the same of the target side.
      cells: int32[N], the bins of each pair, as i * J + j.
    """

    counts: np.ndarray
    source: np.ndarray
    target: np.ndarray
    cells: np.ndarray


def length_histogram(source_lengths: np.ndarray, target_lengths: np.ndarray) -> LengthHistogram:
    """Counts pairs by their lengths, with a bin for every length unless there are very many.

    Args:
      source_lengths: int[N], tokens, at least one; N >= 1.
      target_lengths: int[N], the same of the target side.

    Returns:
      The histogram.
    """
    source, source_bins = _bins(source_lengths)
    target, target_bins = _bins(target_lengths)
    cells = source_bins * np.int32(len(target)) + target_bins
    counts = np.bincount(cells, minlength=len(source) * len(target))
    return LengthHistogram(counts.reshape(len(source), len(target)), source, target, cells)


def choose_shapes(
    histogram: LengthHistogram,
    count: int,
    cost: Callable[[np.ndarray, np.ndarray], int] | None = None,
) -> np.ndarray:
    """Chooses the shapes that make padding cheapest.

    Shapes are added one by one, each where it saves most; after each addition every shape moves
    to its best place while the others stay. This minimises S + T over the pairs. What batches
    make of it, with groups that don't divide by the batch, `cost` knows: it decides how many of
    the shapes are worth having, and whether each should be a little larger or smaller.

    Args:
      histogram: the lengths of all pairs.
      count: shapes, at most; at least one.
      cost: padded tokens of an epoch, given shapes int64[K, 2] and the number of pairs that goes
        to each, int64[K]; None: the sum of S + T over the pairs.

    Returns:
      int64[K, 2] of (S, T), 1 <= K <= count, by ascending S + T. The last holds every pair.
    """
    size = histogram.source[:, None] + histogram.target[None, :]
    chosen: list[tuple[int, int]] = []
    candidates = [chosen]
    while len(chosen) < count - 1:
        addition, saved = _best_addition(histogram.counts, size, chosen)
        if saved == 0:
            break
        chosen = _relocate(histogram.counts, size, [*chosen, addition])
        candidates.append(chosen)

    def total(cells: list[tuple[int, int]]) -> int:
        shapes = _shapes(histogram, cells)
        pairs = count_pairs(histogram, shapes)
        return (cost or _padded_alone)(shapes, pairs)

    return _shapes(histogram, _shift(min(candidates, key=total), size.shape, total))


def count_pairs(histogram: LengthHistogram, shapes: np.ndarray) -> np.ndarray:
    """Counts the pairs that go to each shape, the cheapest that holds them.

    Args:
      histogram: the lengths of all pairs.
      shapes: int64[K, 2], what `choose_shapes` returned for this histogram.

    Returns:
      int64[K].
    """
    cell_shapes = _cell_shapes(histogram, shapes)
    counts = np.bincount(cell_shapes.ravel(), histogram.counts.ravel(), minlength=len(shapes))
    return counts.astype(np.int64)


def assign_shapes(histogram: LengthHistogram, shapes: np.ndarray) -> np.ndarray:
    """Finds the cheapest shape that holds each pair.

    Args:
      histogram: the lengths of all pairs.
      shapes: int64[K, 2], what `choose_shapes` returned for this histogram.

    Returns:
      uint8[N], places in `shapes`.
    """
    return _cell_shapes(histogram, shapes).ravel()[histogram.cells]


def next_shapes(shapes: np.ndarray) -> np.ndarray:
    """Finds for each shape the cheapest other one that holds all that it holds.

    Args:
      shapes: int64[K, 2], by ascending S + T, the last at least as long as all on both sides.

    Returns:
      int64[K - 1], a later place in `shapes` for each but the last.
    """
    larger = [
        number + 1 + int(np.argmax((shapes[number + 1 :] >= shapes[number]).all(axis=1)))
        for number in range(len(shapes) - 1)
    ]
    return np.array(larger, np.int64)


def round_up(length: int) -> int:
    """Rounds a length up to 8, 12, 16, 24, 32, 48, …: powers of two and their half-way points.

    Data that come and go, such as sentences to decode, thus share few compiled programs: some
    two a side for every doubling of the length. Past eight tokens, less than a third is padding.

    Args:
      length: tokens.

    Returns:
      The smallest of these numbers that is not below `length`.
    """
    power = max(8, 1 << (length - 1).bit_length())
    middle = power // 4 * 3
    return middle if power > 8 and length <= middle else power


def _bins(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the largest length of each bin, int64[I], and the bin of each pair, int32[N]."""
    occurring = np.flatnonzero(np.bincount(lengths))
    step = -(-len(occurring) // _SIDES)
    edges = occurring[::-1][::step][::-1]
    return edges, np.searchsorted(edges, np.arange(edges[-1] + 1)).astype(np.int32)[lengths]


def _cell_shapes(histogram: LengthHistogram, shapes: np.ndarray) -> np.ndarray:
    """Returns uint8[I, J]: the cheapest shape that holds the pairs of each cell."""
    cell_shapes = np.full(histogram.counts.shape, len(shapes) - 1, np.uint8)
    for number in range(len(shapes) - 2, -1, -1):
        rows = np.searchsorted(histogram.source, shapes[number, 0], side="right")
        columns = np.searchsorted(histogram.target, shapes[number, 1], side="right")
        cell_shapes[:rows, :columns] = number
    return cell_shapes


def _shapes(histogram: LengthHistogram, cells: list[tuple[int, int]]) -> np.ndarray:
    """Turns cells of the histogram, and the one that holds everything, into sorted shapes."""
    corner = (int(histogram.source[-1]), int(histogram.target[-1]))
    shapes = {(int(histogram.source[i]), int(histogram.target[j])) for i, j in cells} | {corner}
    return np.array(sorted(shapes, key=lambda shape: (sum(shape), shape)), np.int64)


def _padded_alone(shapes: np.ndarray, pairs: np.ndarray) -> int:
    return int(pairs @ shapes.sum(axis=1))


def _cheapest(size: np.ndarray, chosen: list[tuple[int, int]]) -> np.ndarray:
    """Returns int64[I, J]: S + T of the cheapest shape that holds each cell."""
    cheapest = np.full(size.shape, size[-1, -1])
    for i, j in chosen:
        held = cheapest[: i + 1, : j + 1]
        np.minimum(held, size[i, j], out=held)
    return cheapest


def _best_addition(
    counts: np.ndarray, size: np.ndarray, chosen: list[tuple[int, int]]
) -> tuple[tuple[int, int], int]:
    """Returns the cell at which one more shape saves most, and the tokens that it saves."""
    cheapest = _cheapest(size, chosen)
    saved = np.zeros(size.shape, np.int64)
    # The pairs now cost one of few sums, so cumulative counts by sum price all cells at once.
    for now in np.unique(cheapest):
        held = np.where(cheapest == now, counts, 0).cumsum(axis=0).cumsum(axis=1)
        saved += held * np.maximum(now - size, 0)
    place = int(saved.argmax())
    return divmod(place, size.shape[1]), int(saved.flat[place])


def _relocate(
    counts: np.ndarray, size: np.ndarray, chosen: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Moves one shape after another to its best place, until none can save any more."""
    best = int((counts * _cheapest(size, chosen)).sum())
    improved = True
    while improved:
        improved = False
        for number in range(len(chosen)):
            others = chosen[:number] + chosen[number + 1 :]
            alone = int((counts * _cheapest(size, others)).sum())
            place, saved = _best_addition(counts, size, others)
            if alone - saved < best:
                best = alone - saved
                chosen = [*chosen[:number], place, *chosen[number + 1 :]]
                improved = True
    return chosen


def _shift(
    chosen: list[tuple[int, int]],
    limits: tuple[int, int],
    total: Callable[[list[tuple[int, int]]], int],
) -> list[tuple[int, int]]:
    """Moves shapes by one cell, in any of eight directions, as long as the total falls."""
    best = total(chosen)
    steps = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
    for _ in range(_SWEEPS):
        before = best
        for number in range(len(chosen)):
            for down, right in steps:
                i, j = chosen[number][0] + down, chosen[number][1] + right
                if not (0 <= i < limits[0] and 0 <= j < limits[1]):
                    continue
                moved = [*chosen[:number], (i, j), *chosen[number + 1 :]]
                value = total(moved)
                if value < best:
                    best, chosen = value, moved
        if best == before:
            break
    return chosen
