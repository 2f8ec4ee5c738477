"""What the training loop knows beside the arrays."""

import dataclasses
import math


@dataclasses.dataclass
class LoopState:
    """Saved in each checkpoint as JSON, so that a resumed run takes the same decisions.

    Attributes:
      best: best value of `train.metric` so far; None before the first evaluation.
      best_step: updates at that evaluation.
      without_better: evaluations since then.
      evaluated: updates at the last evaluation, so that a resumed run doesn't repeat it.
      skipped: updates left out because the loss or its gradient wasn't finite.
      skipped_in_a_row: those of them since the last update that was made.
      lines: lines of metrics.jsonl.
      loss, nll, tokens: sums since the last line of training figures.
    """

    best: float | None = None
    best_step: int = 0
    without_better: int = 0
    evaluated: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    lines: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: float = 0.0

    def judge(self, value: float, step: int, higher_is_better: bool) -> bool:
        """Notes an evaluation's value; returns whether it is the best so far. NaN never is."""
        sign = -1.0 if higher_is_better else 1.0
        better = not math.isnan(value) and (self.best is None or sign * value < sign * self.best)
        if better:
            self.best, self.best_step = value, step
        self.without_better = 0 if better else self.without_better + 1
        self.evaluated = step
        return better
