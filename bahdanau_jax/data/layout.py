"""The layout of an epoch: how many batches of each shape, and which rows they take.

It depends on how many pairs there are of each shape, not on which they are, so it is the same in
every epoch and on any number of devices.
"""

import math

import numpy as np

from bahdanau_jax.data.shapes import next_shapes


class Layout:
    """How the pairs of each shape share an epoch's batches.

    The epoch is cut into windows, each with its share of the pairs of every shape. In a window
    the pairs of a shape are cut into batches; what remains goes to the next larger shape, and in
    the largest one to the next window. At most one batch is ragged, of fewer pairs than rows.

    Attributes:
      rows: int64[K], rows of a batch of each shape.
      padded: tokens of all batches; an estimate where not all windows were counted.
    """

    def __init__(
        self,
        shapes: np.ndarray,
        rows: np.ndarray,
        pairs: np.ndarray,
        pool: int = 0,
        counted: int | None = None,
    ):
        """Counts the pairs of each shape in each window, not yet placing them.

        Args:
          shapes: int64[K, 2], padded (S, T), by ascending S + T; the last holds every pair.
          rows: int64[K], rows of a batch of each shape.
          pairs: int64[K], pairs whose cheapest shape each is; at least one in all.
          pool: batches of a window; 0: the epoch is one window.
          counted: windows that stand for all, where only an estimate of `padded` is wanted;
            None: all.
        """
        self.rows = rows
        self._larger = next_shapes(shapes)
        windows = math.ceil((pairs / rows).sum() / pool) if pool else 1
        window = np.arange(min(windows, counted or windows))[:, None]
        # int64[W, K]: the pairs of each shape in each window, and those that its batches hold.
        self._own = (window + 1) * pairs // windows - window * pairs // windows
        self._held = self._settle(self._own)
        cost = rows * shapes.sum(axis=1)
        self._ragged = self._choose_ragged(cost)
        self._own[-1, 0] -= self._ragged
        self._held[-1:] = self._settle(self._own[-1:])
        batches = -(-self._held.sum(axis=0) // rows)
        batches[0] += self._ragged > 0
        self.padded = int(batches @ cost) * windows // len(window)

    def place(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Gives every pair its row.

        Returns:
          slots: int64[N], for each row in turn a place among the pairs sorted by shape.
          begins: int64[M], the first slot of each batch.
          ends: int64[M], the slot after its last.
          shapes: int64[M], the shape of each batch.
        """
        windows = np.arange(len(self._own))
        pairs = self._own.sum(axis=0)
        pairs[0] += self._ragged
        firsts = np.cumsum(pairs) - pairs
        arrived: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in self.rows]
        groups = []
        for shape, own in enumerate(self._own.T):
            here = (firsts[shape] + np.arange(own.sum()), np.repeat(windows, own))
            places, window = map(np.concatenate, zip(*arrived[shape], here, strict=True))
            by_window = np.argsort(window, kind="stable")
            places, window = places[by_window], window[by_window]
            number = np.bincount(window, minlength=len(windows))
            stays = _ranks(number) < np.repeat(self._held[:, shape], number)
            groups.append(places[stays])
            if shape < len(self._larger):
                arrived[self._larger[shape]].append((places[~stays], window[~stays]))
        groups.append(firsts[0] + pairs[0] - self._ragged + np.arange(self._ragged))
        return np.concatenate(groups), *self._cut(np.array([len(group) for group in groups]))

    def _cut(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cuts the slots of each shape, and the ragged ones, int64[K + 1], into batches."""
        shapes = np.append(np.arange(len(self.rows)), 0)
        number = -(-slots // self.rows[shapes])
        shape = np.repeat(shapes, number)
        ends = np.cumsum(slots)
        begins = np.repeat(ends - slots, number) + _ranks(number) * self.rows[shape]
        return begins, np.minimum(begins + self.rows[shape], np.repeat(ends, number)), shape

    def _settle(self, own: np.ndarray) -> np.ndarray:
        """Passes what makes no full batch on to larger shapes: int64[..., K] to the same."""
        held = own.copy()
        for shape, larger in enumerate(self._larger):
            rest = held[..., shape] % self.rows[shape]
            held[..., shape] -= rest
            held[..., larger] += rest
        return held

    def _choose_ragged(self, cost: np.ndarray) -> int:
        """Returns how many pairs of the smallest shape make a ragged batch of their own.

        Some batch must be ragged unless the numbers happen to divide. In the largest shape it
        would be dearest; a few pairs set aside in the smallest one let all others come out even.
        """
        if len(self.rows) == 1:
            return 0
        aside = np.arange(min(self.rows[0], self._own[-1, 0] + 1))
        own = np.repeat(self._own[-1:], len(aside), axis=0)
        own[:, 0] -= aside
        held = self._settle(own) + self._held[:-1].sum(axis=0)
        padded = -(-held // self.rows) @ cost + (aside > 0) * cost[0]
        even = (aside == 0) | (held[:, -1] % self.rows[-1] == 0)
        return int(aside[even][np.argmin(padded[even])])


def _ranks(lengths: np.ndarray) -> np.ndarray:
    """Returns 0, 1, …, n - 1 for each n in `lengths`, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
