"""What a run returns to a Python program: an output, a pair's likelihood, with their alignments."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bahdanau_jax.reports.pages import render


@dataclasses.dataclass(frozen=True)
class Attended:
    """A source and a target sentence, and how the model attended while it wrote the target.

    Attributes:
      source: the source as it was given.
      text: the target.
      source_tokens: the S tokens of the source, its end mark among them.
      tokens: the T tokens of the target; the last is its end mark, where that was reached.
      token_log_probabilities: log p of every token, given those before it, in nats, `float32[T]`.
      alignment: `float32[T, S]`. Row i has the weights of the step that predicts token i; see
        `docs/alignments.md` for where they lie. `float32[T, 0]` for sentences so long that it
        would take over a GiB.
    """

    source: str
    text: str
    source_tokens: list[str]
    tokens: list[str]
    token_log_probabilities: np.ndarray
    alignment: np.ndarray

    @property
    def log_probability(self) -> float:
        """The log-probability of the target, given the source, in nats."""
        return float(self.token_log_probabilities.sum(dtype=np.float64))

    def _repr_html_(self) -> str:
        """Returns the alignment as a table of shades, which notebooks show."""
        columns = self.source_tokens if self.alignment.shape[1] else []
        shades = [[f"{weight:.3f}" for weight in row] for row in self.alignment.tolist()]
        rows = zip(self.tokens, shades, strict=True)
        heading = f"{self.source} → {self.text}"
        return render("alignment", heading=heading, columns=columns, rows=rows)


@dataclasses.dataclass(frozen=True)
class Translation(Attended):
    """What a run made of a sentence.

    Attributes:
      score: the log-probability with the penalties of the search in force; it ranks outputs.
      ended: whether the end mark came before the limit of length.
      others: further outputs, the best first, where `nbest` asked for them.
    """

    score: float
    ended: bool
    others: Sequence["Translation"] = ()
