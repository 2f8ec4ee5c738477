"""Which checkpoint of a run is meant, as `--checkpoint` says it."""

import re
from typing import Literal, NamedTuple, TypeAlias

from bahdanau_jax.errors import InputError


class Average(NamedTuple):
    """The mean of the newest checkpoints."""

    count: int  # checkpoints, at least 1


Selection: TypeAlias = int | Literal["best", "latest"] | Average


def parse_selection(text: str, flag: str = "--checkpoint") -> Selection:
    """Reads which checkpoint a flag asks for.

    Args:
      text: `best`, `latest`, a number of steps, or `average:N`.
      flag: what a complaint calls it.

    Raises:
      InputError: it is none of these.
    """
    if text == "best" or text == "latest":
        return text
    if re.fullmatch("[0-9]+", text):
        return int(text)
    if re.fullmatch("average:0*[1-9][0-9]*", text):
        return Average(int(text.partition(":")[2]))
    raise InputError(
        f"{flag} must be best, latest, a number of steps, or average:N for the mean of the N "
        f"newest; it is {text!r}"
    )
