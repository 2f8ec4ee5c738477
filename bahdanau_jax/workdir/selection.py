"""Which checkpoint of a run is meant, as `--checkpoint` says it, and its parameters.

The mean of several checkpoints is one model, often a better one than each of them (Vaswani et al.
2017, section 6.1).
"""

import logging
import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from bahdanau_jax.errors import InputError

if TYPE_CHECKING:  # reading a flag needs neither Orbax nor JAX
    from bahdanau_jax.workdir.checkpoints import Checkpoints, Restored


BEST_STEP = "best_step"  # in the saved progress: the step of the best, 0 before the first


class Average(NamedTuple):
    """The mean of several checkpoints: the newest, or the best by `train.metric`."""

    count: int  # checkpoints, at least 1
    best: bool = False

    def __str__(self) -> str:
        """Returns it as a flag has it."""
        return f"{'best' if self.best else 'average'}:{self.count}"


Selection: TypeAlias = int | Literal["best", "latest"] | Average


def parse_selection(text: str, flag: str = "--checkpoint") -> Selection:
    """Reads which checkpoint a flag asks for.

    Args:
      text: `best`, `latest`, a number of steps, `average:N` or `best:N`.
      flag: what a complaint calls it.

    Raises:
      InputError: it is none of these.
    """
    if text == "best" or text == "latest":
        return text
    if re.fullmatch("[0-9]+", text):
        return int(text)
    if re.fullmatch("(average|best):0*[1-9][0-9]*", text):
        kind, _, count = text.partition(":")
        return Average(int(count), kind == "best")
    raise InputError(
        f"{flag} must be best, latest, a number of steps, average:N for the mean of the N newest, "
        f"or best:N for that of the N best; it is {text!r}"
    )


def restore_selected(checkpoints: "Checkpoints", template: dict, which: Selection) -> "Restored":
    """Reads the parameters of the checkpoint that is meant.

    Args:
      checkpoints: of the run.
      template: the tree of the parameters.
      which: `best`, `latest`, a step, or an `Average`.

    Returns:
      The parameters, and the step and progress of their checkpoint; of an average, of the first.

    Raises:
      InputError: there is no such checkpoint, there are fewer than asked for, or one is damaged.
    """
    if not isinstance(which, Average):
        restored = checkpoints.restore_params(template, which)
        best = restored.progress.get(BEST_STEP) or restored.step
        if which == "best" and best != restored.step and best not in checkpoints.best_steps():
            logging.warning(
                "the best checkpoint, of step %s, is gone; reading that of step %d instead",
                best,
                restored.step,
            )
        return restored
    import jax  # here, so that reading a flag doesn't start it

    steps = checkpoints.best_steps() if which.best else checkpoints.steps()
    if len(steps) < which.count:
        kind, field = ("best ", "train.keep_best") if which.best else ("", "train.keep")
        there = ", ".join(map(str, steps)) or "none"
        raise InputError(
            f"--checkpoint={which} needs {which.count} {kind}checkpoints, and {field} says how "
            f"many are kept; those there: {there}"
        )
    restored = [checkpoints.restore_params(template, step) for step in steps[: which.count]]
    states = [each.state for each in restored]
    mean = jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]) / which.count, *states)
    return restored[0]._replace(state=mean)
