"""Contenders that are measured by turns, so that what slows the machine down slows all of them."""

from collections.abc import Callable, Mapping
from typing import TypeVar

P = TypeVar("P")


def take_turns(
    contenders: Mapping[str, Callable[[], P]], turns: int, tell: Callable[[int, str, P], object]
) -> dict[str, list[P]]:
    """Calls each contender so many times; every second turn goes through them backwards.

    Args:
      contenders: by name.
      turns: calls of each.
      tell: told of each call the turn, from 1, the name, and what came of it.

    Returns:
      What came of the calls of each, in their order.
    """
    made: dict[str, list[P]] = {name: [] for name in contenders}
    for turn in range(1, turns + 1):
        for name in list(contenders)[:: 1 if turn % 2 else -1]:
            made[name].append(found := contenders[name]())
            tell(turn, name, found)
    return made
