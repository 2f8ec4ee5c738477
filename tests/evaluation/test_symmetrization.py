import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.evaluation.symmetrization import METHODS, combine

places = st.integers(0, 5)
link_sets = st.frozensets(st.tuples(places, places), max_size=12)


def combined(forward, backward, method="grow-diag-final-and"):
    return combine(parse_line(forward).sure, parse_line(backward).sure, method)


def links(line):
    return parse_line(line).sure


def test_intersection_and_union():
    assert combined("0-0 1-1 1-2", "0-0 1-2 2-1", "intersection") == links("0-0 1-2")
    assert combined("0-0 1-1 1-2", "0-0 1-2 2-1", "union") == links("0-0 1-1 1-2 2-1")


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # Common: 0-0, 1-2. Beside 0-0 lies 1-1, whose target word is free; beside that, 2-1, whose
        # source word is.
        ("0-0 1-1 1-2", "0-0 1-2 2-1", "0-0 1-1 1-2 2-1"),
        # 0-1 lies beside both common links, but both of its words have one.
        ("0-0 0-1 1-1", "0-0 1-1", "0-0 1-1"),
        # 1-1 is a diagonal neighbour, and 1-2 a neighbour of it. Without the first, final-and
        # would take 1-1 and not 1-2, whose source word isn't free any more.
        ("0-0 1-1 1-2", "0-0", "0-0 1-1 1-2"),
        # Nothing lies beside 0-0. Final-and: 3-3 first, and 2-3 then has a word with a link.
        ("0-0 3-3", "0-0 2-3", "0-0 3-3"),
        ("0-0 2-3", "0-0 3-3", "0-0 2-3"),
        # Of the links that only the other direction has, one between two free words is taken too.
        ("0-0", "0-0 3-3", "0-0 3-3"),
        # Nothing common, so nothing grows: of 0-0, 1-0, 2-2 and 2-3 those between free words.
        ("0-0 2-2", "1-0 2-3", "0-0 2-2"),
        # Far from all others, 5-4 joins a free word to one with a link: final-and leaves it.
        ("0-0 3-4 5-4", "0-0 3-4", "0-0 3-4"),
        ("", "", ""),
    ],
)
def test_growing_by_hand(forward, backward, expected):
    assert combined(forward, backward) == links(expected)


NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grown_by_the_papers_loops(forward, backward, size=6):
    """The algorithm as it is printed, over all places, with nothing remembered."""
    chosen, either = set(forward & backward), forward | backward

    def free(side, word):
        return all(link[side] != word for link in chosen)

    before = None
    while before != len(chosen):
        before = len(chosen)
        for target in range(size):
            for source in range(size):
                if (source, target) in chosen:
                    for i, j in NEIGHBOURS:
                        new = source + i, target + j
                        if new in either and (free(0, new[0]) or free(1, new[1])):
                            chosen.add(new)
    for direction in (forward, backward):
        for target in range(size):
            for source in range(size):
                if (source, target) in direction and free(0, source) and free(1, target):
                    chosen.add((source, target))
    return chosen


@given(link_sets, link_sets)
def test_growing_is_what_the_papers_loops_compute(forward, backward):
    assert combine(forward, backward, METHODS[2]) == grown_by_the_papers_loops(forward, backward)


@given(link_sets, link_sets)
def test_growing_ends_between_intersection_and_union(forward, backward):
    common, either, grown = (combine(forward, backward, method) for method in METHODS)
    assert common <= grown <= either
    assert {j for _, j in grown} <= {j for _, j in either}
