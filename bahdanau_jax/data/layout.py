"""The layout of an epoch: how many batches of each shape, and which rows they take.

It depends on how many pairs there are of each shape, not on which they are, so it is the same in
every epoch and on any number of devices.
"""

import numpy as np

from bahdanau_jax.data.shapes import next_shapes


class Layout:
    """How the pairs of each shape share an epoch's batches.

    The pairs of a shape are cut into batches; what remains goes to the next larger shape. At most
    one batch is ragged, of fewer pairs than rows.

    Attributes:
      padded: tokens of all batches.
    """

    def __init__(self, shapes: np.ndarray, rows: np.ndarray, pairs: np.ndarray):
        """Counts the pairs in the batches of each shape, not yet placing them.

        Args:
          shapes: int64[K, 2], padded (S, T), by ascending S + T; the last holds every pair.
          rows: int64[K], rows of a batch of each shape.
          pairs: int64[K], pairs whose cheapest shape each is; at least one in all.
        """
        self._rows, self._pairs = rows, pairs
        self._larger = next_shapes(shapes)
        cost = rows * shapes.sum(axis=1)
        self._ragged = self._choose_ragged(cost)
        # int64[K]: the pairs of each shape that aren't set aside, and those that its batches hold.
        self._own = pairs.copy()
        self._own[0] -= self._ragged
        self._held = self._settle(self._own)
        batches = -(-self._held // rows)
        batches[0] += self._ragged > 0
        self.padded = int(batches @ cost)

    def place(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Gives every pair its row.

        Returns:
          slots: int64[N], for each row in turn a place among the pairs sorted by shape.
          begins: int64[M], the first slot of each batch.
          ends: int64[M], the slot after its last.
          shapes: int64[M], the shape of each batch.
        """
        firsts = np.cumsum(self._pairs) - self._pairs
        arrived: list[list[np.ndarray]] = [[] for _ in self._rows]
        groups = []
        for shape, (own, held) in enumerate(zip(self._own, self._held, strict=True)):
            places = np.concatenate([*arrived[shape], firsts[shape] + np.arange(own)])
            groups.append(places[:held])
            if shape < len(self._larger):
                arrived[self._larger[shape]].append(places[held:])
        groups.append(self._own[0] + np.arange(self._ragged))
        return np.concatenate(groups), *self._cut(np.array([len(group) for group in groups]))

    def _cut(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cuts the slots of each shape, and the ragged ones, int64[K + 1], into batches."""
        shapes = np.append(np.arange(len(self._rows)), 0)
        number = -(-slots // self._rows[shapes])
        shape = np.repeat(shapes, number)
        ends = np.cumsum(slots)
        begins = np.repeat(ends - slots, number) + _ranks(number) * self._rows[shape]
        return begins, np.minimum(begins + self._rows[shape], np.repeat(ends, number)), shape

    def _settle(self, own: np.ndarray) -> np.ndarray:
        """Passes what makes no full batch on to larger shapes: int64[..., K] to the same."""
        held = own.copy()
        for shape, larger in enumerate(self._larger):
            rest = held[..., shape] % self._rows[shape]
            held[..., shape] -= rest
            held[..., larger] += rest
        return held

    def _choose_ragged(self, cost: np.ndarray) -> int:
        """Returns how many pairs of the smallest shape make a ragged batch of their own.

        Some batch must be ragged unless the numbers happen to divide. In the largest shape it
        would be dearest; a few pairs set aside in the smallest one let all others come out even.
        """
        if len(self._rows) == 1:
            return 0
        aside = np.arange(min(self._rows[0], self._pairs[0] + 1))
        own = np.repeat(self._pairs[None], len(aside), axis=0)
        own[:, 0] -= aside
        held = self._settle(own)
        padded = -(-held // self._rows) @ cost + (aside > 0) * cost[0]
        even = (aside == 0) | (held[:, -1] % self._rows[-1] == 0)
        return int(aside[even][np.argmin(padded[even])])


def _ranks(lengths: np.ndarray) -> np.ndarray:
    """Returns 0, 1, …, n - 1 for each n in `lengths`, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
