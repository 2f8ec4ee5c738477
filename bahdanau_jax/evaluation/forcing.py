"""Forced decoding: what a model attends to while it is made to write given targets."""

from collections.abc import Iterator

import jax
import numpy as np

from bahdanau_jax.data.batching import evaluation_batches
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.evaluation.trained_run import TrainedRun, make_model
from bahdanau_jax.runtime import devices


class Forcing:
    """A run's compiled forced decoding."""

    def __init__(self, run: TrainedRun):
        """Compiles nothing yet."""
        self._run = run
        model = make_model(run.config, run.vocabularies)

        def attend(params, batch):
            _, alignments = model.apply({"params": params}, batch.source, batch.target)
            return alignments

        self._attend = devices.on_devices(attend, outputs=0)

    def alignments(self, pairs: TokenStore) -> Iterator[tuple[int, np.ndarray]]:
        """Yields each pair's alignments, the longest pairs first.

        Args:
          pairs: source and target ids.

        Yields:
          The pair's number, and float32[T, S]: row i is the step that predicts target token i.
          End marks are counted on both sides.
        """
        rows = self._run.config.decode.batch_size
        for numbers, batch in evaluation_batches(pairs, rows, multiple=jax.device_count()):
            found = np.asarray(self._attend(self._run.params, devices.shard(batch)))
            found = found.reshape(-1, *found.shape[2:])
            for row, number in enumerate(numbers):
                target, source = pairs.target_lengths[number], pairs.source_lengths[number]
                yield int(number), found[row, :target, :source]
