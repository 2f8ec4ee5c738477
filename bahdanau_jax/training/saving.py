"""Saves that may fail: a full disk is reported, and the last good checkpoint is kept."""

import dataclasses
from collections.abc import Callable
from typing import Any

from bahdanau_jax.errors import RunError, flat, is_full
from bahdanau_jax.training.record import LoopState, Ranking
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.metrics_log import Metrics

FAILURES = 3  # saves in a row that fail before the run does


class Saver:
    """Saves a run's checkpoints beside the training."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        writer: Metrics,
        record: LoopState,
        step: int,
        say: Callable[[str], None],
    ):
        """Saves nothing yet.

        Args:
          checkpoints: where to.
          writer: whose lines a checkpoint counts; they are on the disk before it is.
          record: saved with the arrays.
          step: of the checkpoint that the run goes on from; 0 for a new run.
          say: told of a save that failed.
        """
        self._checkpoints, self._writer, self._record, self._say = checkpoints, writer, record, say
        self._good = step
        self._good_best = record.ranking
        self._under_way: tuple[int, Ranking | None] | None = None
        self._failures = 0
        self._saved = (step, record.evaluated)

    def save(self, step: int, state: Any, better: bool) -> None:
        """Starts to save unless this has been saved; the state may be donated afterwards.

        Args:
          step: updates done.
          state: the training state.
          better: whether it is one of the best so far.

        Raises:
          RunError: it was the third save in a row that failed.
        """
        record = self._record
        if self._saved == (step, record.evaluated):
            return
        self._settle()
        record.lines, record.lines_digest = self._writer.written
        self._under_way = (step, record.ranking if better else None)
        self._saved = (step, record.evaluated)
        try:
            self._writer.confirm()
            best = [s for _, s in record.ranking] if better else []
            self._checkpoints.save(step, state, dataclasses.asdict(record), best)
        except (OSError, ValueError, RuntimeError) as error:
            self._fail(error)

    def finish(self) -> None:
        """Waits for the last save.

        Raises:
          RunError: it failed, and there is no other to come.
        """
        self._settle()
        if self._failures:
            raise RunError(
                f"the last save failed; what came after step {self._good:,} is lost. Free some "
                "space: the same command goes on from there"
            )

    def _settle(self) -> None:
        """Waits for the save before."""
        if self._under_way is None:
            return
        step, ranking = self._under_way
        try:
            self._checkpoints.wait()
        except (OSError, ValueError, RuntimeError) as error:
            self._fail(error)
            return
        self._under_way, self._failures, self._good = None, 0, step
        if ranking is not None:
            self._good_best = ranking

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, OSError) and not is_full(error):
            raise error
        assert self._under_way is not None
        (step, ranking), self._under_way = self._under_way, None
        self._failures += 1
        kept = f"the checkpoint of step {self._good:,} is kept" if self._good else "none is there"
        words = flat(error)
        if self._failures == FAILURES:
            raise RunError(
                f"{FAILURES} saves in a row failed ({words}); {kept}. Free some space: the same "
                "command goes on from it"
            ) from error
        if ranking is not None:
            # What isn't on the disk can't be what later evaluations have to surpass.
            self._record.rank(self._good_best)
        self._say(f"the save of step {step:,} failed ({words}); {kept}, the next save tries again")
