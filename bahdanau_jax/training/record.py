"""What a run records beside its arrays: the loop's state, its figures, and skipped batches."""

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from bahdanau_jax.config import TrainConfig
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies, Vocabulary
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.runtime import devices
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.terminal import Progress
from bahdanau_jax.training.compilation import Shape
from bahdanau_jax.training.optimizer import make_schedule
from bahdanau_jax.training.step import TrainSums
from bahdanau_jax.workdir.metrics_log import Metrics, to_json

SKIPPED = "skipped"  # the folder of a workdir that keeps the batches of skipped updates


Ranking = list[tuple[float, int]]  # values of `train.metric` and their steps, the best first


@dataclasses.dataclass
class LoopState:
    """Saved in each checkpoint as JSON, so that a resumed run takes the same decisions.

    Attributes:
      best: best value of `train.metric` so far; None before the first evaluation.
      best_step: updates at that evaluation.
      runners_up: value and updates of the next best evaluations, as many as `train.keep_best` asks.
      without_better: evaluations since then.
      plateau_rate: what `train.schedule=plateau` has multiplied the learning rate by.
      plateau: evaluations since then, or since the best if that is later.
      evaluated: updates at the last evaluation, so that a resumed run doesn't repeat it.
      skipped: updates left out because the loss or its gradient wasn't finite.
      skipped_in_a_row: those of them since the last update that was made.
      lines: lines of metrics.jsonl.
      lines_digest: of these lines, as `metrics_log.written` gives it; 0: not known.
      loss, nll, tokens, coverage, guide: sums since the last line of training figures.
    """

    best: float | None = None
    best_step: int = 0
    runners_up: list[tuple[float, int]] = dataclasses.field(default_factory=list)
    without_better: int = 0
    plateau_rate: float = 1.0
    plateau: int = 0
    evaluated: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    lines: int = 0
    lines_digest: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: float = 0.0
    coverage: float = 0.0
    guide: float = 0.0

    @classmethod
    def from_saved(cls, progress: Mapping[str, Any]) -> Self:
        """Returns the state that a checkpoint holds; what it lacks is as before the first step.

        Raises:
          InputError: it holds something else; names it.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        for name, value in progress.items():
            none = name == "best" and value is None
            known = _is_ranking(value) if name == "runners_up" else none or _is_number(value)
            if name not in names or not known:
                raise InputError(
                    f"the progress saved in a checkpoint has {name}={value!r:.40}, which this "
                    "version doesn't know; go on with the version that saved it"
                )
        state = cls(**progress)
        state.runners_up = [(value, step) for value, step in state.runners_up]
        return state

    @property
    def ranking(self) -> Ranking:
        """The best evaluations so far, as many as are kept."""
        best = [] if self.best is None else [(self.best, self.best_step)]
        return [*best, *self.runners_up]

    def rank(self, ranking: Ranking) -> None:
        """Takes these for the best evaluations so far, the best first."""
        self.best, self.best_step = ranking[0] if ranking else (None, 0)
        self.runners_up = ranking[1:]

    def judge(self, value: float, step: int, higher_is_better: bool, keep: int = 1) -> bool:
        """Notes an evaluation's value; returns whether it is the best so far. NaN never is.

        Args:
          value: of `train.metric`.
          step: updates done.
          higher_is_better: whether that metric's larger values are better.
          keep: so many of the best are remembered; of equal ones the earlier is the better.
        """
        sign = -1.0 if higher_is_better else 1.0
        better = not math.isnan(value) and (self.best is None or sign * value < sign * self.best)
        if not math.isnan(value):
            ranked = sorted([*self.ranking, (value, step)], key=lambda one: sign * one[0])
            self.rank(ranked[:keep])
        self.without_better = 0 if better else self.without_better + 1
        self.plateau = 0 if better else self.plateau + 1
        self.evaluated = step
        return better

    def lower_rate(self, train: TrainConfig) -> bool:
        """Multiplies the rate if the plateau has lasted long enough; returns whether it did.

        Args:
          train: `schedule`, `decay_patience` and `decay_factor` are read.
        """
        if train.schedule != "plateau" or self.plateau <= train.decay_patience:
            return False
        self.plateau_rate, self.plateau = self.plateau_rate * train.decay_factor, 0
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_ranking(value: Any) -> bool:
    """Returns whether a saved value holds pairs of a number and a step."""
    return isinstance(value, list) and all(
        isinstance(one, list) and len(one) == 2 and _is_number(one[0]) and type(one[1]) is int
        for one in value
    )


class StepFigures:
    """Sums what the steps return, writes it, and watches for what isn't finite."""

    def __init__(
        self,
        train: TrainConfig,
        total: int,
        record: LoopState,
        writer: Metrics,
        progress: Progress,
        keep_batch: Callable[[int, Mapping[str, float]], Path],
    ):
        """Has written nothing yet.

        Args:
          train: how often to write, and when to give up.
          total: updates of the whole run.
          record: holds the sums, so that they are saved.
          writer: where lines go.
          progress: what the user sees.
          keep_batch: told the number of a batch that gave no finite gradient, and its figures;
            returns where it lies.
        """
        self._train, self._total, self._record = train, total, record
        self._writer, self._progress, self._keep_batch = writer, progress, keep_batch
        self._schedule = make_schedule(train, total)

    def write(self, step: int, sums: TrainSums, shape: Shape) -> None:
        """Adds a step's figures to the sums, and writes a line where one is due.

        Args:
          step: updates done, this one counted.
          sums: the step's, on the host.
          shape: of its batch.

        Raises:
          RunError: too many steps in a row gave no finite gradient.
        """
        record, (rows, _, target) = self._record, shape
        loss, nll, tokens = float(sums.loss), float(sums.nll), float(sums.tokens)
        self._progress.update(step, loss / tokens, int(tokens), rows * target)
        if sums.finite:
            record.loss, record.nll = record.loss + loss, record.nll + nll
            record.tokens += tokens
            record.coverage += float(sums.of_alignments.get("coverage", 0.0))
            record.guide += float(sums.of_alignments.get("guide", 0.0))
            record.skipped_in_a_row = 0
        else:
            self._skip(step, loss, float(sums.gradient_norm))
        if step % self._train.log_every and step != self._total:
            return
        rate = self._schedule(max(step - 1 - record.skipped, 0))
        means = {}
        if record.tokens:
            means = {
                "train/loss": record.loss / record.tokens,
                "train/nll_per_token": record.nll / record.tokens,
            }
            if self._train.coverage > 0:
                means["train/coverage"] = record.coverage / record.tokens
            if self._train.guide > 0:
                means["train/guide"] = record.guide / record.tokens
        self._writer.write(
            step,
            {
                **means,
                "train/gradient_norm": float(sums.gradient_norm),
                "train/learning_rate": np.asarray(rate).item() * record.plateau_rate,
                "train/skipped": record.skipped,
                "speed/target_tokens_per_second": self._progress.tokens_per_second,
                "speed/step_seconds": self._progress.step_seconds,
                "speed/peak_memory_bytes": devices.peak_memory(),
            },
        )
        record.loss = record.nll = record.tokens = record.coverage = record.guide = 0.0

    def _skip(self, step: int, loss: float, norm: float) -> None:
        record, most = self._record, self._train.max_skipped
        record.skipped, record.skipped_in_a_row = record.skipped + 1, record.skipped_in_a_row + 1
        path = self._keep_batch(step - 1, {"loss": loss, "gradient_norm": norm})
        self._progress.message(
            f"step {step:,}: the loss is {loss:.4g} and its gradient's norm {norm:.4g}; no update "
            f"is made, and the batch lies in {path}"
        )
        if record.skipped_in_a_row >= most:
            raise RunError(
                f"{most} steps in a row (the last is {step:,}) gave no finite gradient, so the run "
                f"stops; their batches lie in {path.parent}. Look at their sentences, "
                "or lower train.learning_rate: the same command goes on from the last checkpoint"
            )


def write_skipped(
    directory: Path,
    batch: int,
    pairs: np.ndarray,
    store: TokenStore,
    vocabularies: Vocabularies,
    figures: Mapping[str, float],
) -> Path:
    """Keeps a batch that gave no finite loss or gradient, to be seen again: `skipped/BATCH.json`.

    A disk that has no room for it is a warning, not the end of the run.

    Args:
      directory: the workdir.
      batch: the number of the batch, the same as of the updates before it.
      pairs: int64[n], the numbers of its pairs in the store.
      store: the training pairs.
      vocabularies: of both sides.
      figures: what was wrong, by name.

    Returns:
      The file's path.
    """
    path = directory / SKIPPED / f"{batch:08d}.json"
    width = int(max(store.source_lengths[pairs].max(), store.target_lengths[pairs].max()))
    sources = _texts(store.sources(pairs, len(pairs), width), vocabularies.source)
    targets = _texts(store.targets(pairs, len(pairs), width), vocabularies.target)
    sentences = [
        {"pair": int(number), "source": source, "target": target}
        for number, source, target in zip(pairs, sources, targets, strict=True)
    ]
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, to_json({"batch": batch, **figures, "sentences": sentences}))
    except OSError as error:
        logging.warning("%s can't be written (%s)", path, error.strerror)
    return path


def _texts(ids: np.ndarray, vocabulary: Vocabulary) -> list[str]:
    """Returns the text of each row, which ends before its end mark."""
    rows = ids.tolist()
    return [vocabulary.decode(row[: row.index(EOS)]) for row in rows]
