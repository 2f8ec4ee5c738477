"""One set of links from those of both directions (Koehn, Och and Marcu 2003, section 3).

A model links every target word to one source word at most. A model of the other direction links
every source word to one target word at most. What both say is precise, and what either says is
complete; growing goes from the one towards the other.
"""

from collections.abc import Collection

from bahdanau_jax.data.gold_links import Link

METHODS = ("intersection", "union", "grow-diag-final-and")
_SIDES = ((-1, 0), (0, -1), (1, 0), (0, 1))
_NEIGHBOURS = (*_SIDES, (-1, -1), (-1, 1), (1, -1), (1, 1))  # in the order in which they are tried


def combine(forward: Collection[Link], backward: Collection[Link], method: str) -> set[Link]:
    """Combines the links of one pair.

    Args:
      forward: from a model of this direction.
      backward: from one of the other direction, written as links of this one: source, target.
      method: one of `METHODS`.

    Returns:
      The links in both; or in either; or those in both, with links in either that lie beside one
      and join a word without any (grow-diag), and then links, `forward` first, between two words
      without any (final-and).
    """
    common, either = {*forward} & {*backward}, {*forward} | {*backward}
    match method:
        case "intersection":
            return common
        case "union":
            return either
    return _with_links_between_free_words(_grown(common, either), (forward, backward))


def _grown(links: set[Link], either: set[Link]) -> set[Link]:
    """Adds links beside those that are there until none is left that joins a free word.

    Links are visited target word by target word, and by their source words within it. A link that
    is added further on is visited in the same pass, as in the paper's algorithm.
    """
    chosen, grown = set(links), True
    sources, targets = ({link[side] for link in links} for side in (0, 1))
    while grown:
        grown = False
        for place in sorted(either, key=_by_target):
            if place not in chosen:
                continue
            for source, target in _NEIGHBOURS:
                link = place[0] + source, place[1] + target
                if link in either and (link[0] not in sources or link[1] not in targets):
                    chosen.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    grown = True
    return chosen


def _with_links_between_free_words(
    links: set[Link], directions: tuple[Collection[Link], ...]
) -> set[Link]:
    chosen = set(links)
    sources, targets = ({link[side] for link in links} for side in (0, 1))
    for direction in directions:
        for link in sorted(direction, key=_by_target):
            if link[0] not in sources and link[1] not in targets:
                chosen.add(link)
                sources.add(link[0])
                targets.add(link[1])
    return chosen


def _by_target(link: Link) -> Link:
    return link[1], link[0]
