import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.data.shapes import (
    assign_shapes,
    choose_shapes,
    count_pairs,
    length_histogram,
    next_shapes,
    round_up,
)

lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=40)
many_lengths = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 300)), min_size=1)
quick = settings(max_examples=50, deadline=None)


def histogram_of(pairs):
    return length_histogram(*np.array(pairs).T)


def padded(pairs, shapes):
    """Returns the sum over the pairs of S + T of the cheapest shape that holds each."""
    return sum(
        min(S + T for S, T in shapes if source <= S and target <= T) for source, target in pairs
    )


@quick
@given(lengths)
def test_one_shape_is_the_longest_of_each_side(pairs):
    assert choose_shapes(histogram_of(pairs), 1).tolist() == [list(np.max(pairs, axis=0))]


@quick
@given(lengths)
def test_two_shapes_are_the_best_two(pairs):
    corner = tuple(np.max(pairs, axis=0))
    best = min(
        padded(pairs, [place, corner])
        for place in itertools.product(range(1, corner[0] + 1), range(1, corner[1] + 1))
    )
    assert padded(pairs, choose_shapes(histogram_of(pairs), 2)) == best


@quick
@given(lengths)
def test_with_a_shape_for_each_pair_nothing_is_padded(pairs):
    shapes = choose_shapes(histogram_of(pairs), len(pairs) + 1)
    assert padded(pairs, shapes) == np.sum(pairs)


@quick
@given(lengths)
def test_more_shapes_never_cost_more(pairs):
    costs = [padded(pairs, choose_shapes(histogram_of(pairs), count)) for count in range(1, 7)]
    assert costs == sorted(costs, reverse=True)


@quick
@given(lengths | many_lengths, st.integers(1, 12))
def test_each_pair_goes_to_the_cheapest_shape_that_holds_it(pairs, count):
    histogram = histogram_of(pairs)
    shapes = choose_shapes(histogram, count)
    assigned = assign_shapes(histogram, shapes)
    assert len(shapes) <= count
    assert (np.diff(shapes.sum(axis=1)) >= 0).all()
    for (source, target), place in zip(pairs, assigned, strict=True):
        S, T = shapes[place]
        assert source <= S
        assert target <= T
    assert shapes[assigned].sum() == padded(pairs, shapes)
    assert np.bincount(assigned, minlength=len(shapes)).tolist() == (
        count_pairs(histogram, shapes).tolist()
    )


@quick
@given(lengths, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(pairs, random):
    shapes = choose_shapes(histogram_of(pairs), 5)
    random.shuffle(pairs)
    assert (choose_shapes(histogram_of(pairs), 5) == shapes).all()


@quick
@given(lengths, st.integers(1, 6))
def test_what_a_shape_cannot_take_goes_to_a_larger_one(pairs, count):
    shapes = choose_shapes(histogram_of(pairs), count)
    for number, larger in enumerate(next_shapes(shapes)):
        assert larger > number
        assert (shapes[larger] >= shapes[number]).all()
        between = shapes[number + 1 : larger]
        assert not (between >= shapes[number]).all(axis=1).any()


def test_the_cost_decides_how_many_shapes_there_are():
    histogram = histogram_of([(3, 3)] * 10 + [(9, 9)] * 10)
    assert len(choose_shapes(histogram, 5)) == 2
    assert len(choose_shapes(histogram, 5, lambda shapes, pairs: len(shapes))) == 1


def test_the_cost_moves_the_shapes():
    histogram = histogram_of([(n, n) for n in range(1, 21)])
    wanted = np.array([6, 8])

    def distance(shapes, pairs):
        return int(np.abs(shapes[0] - wanted).sum())

    assert choose_shapes(histogram, 2)[0].tolist() == [10, 10]
    assert choose_shapes(histogram, 2, distance)[0].tolist() == [6, 8]


def test_very_long_sides_are_tried_in_steps_and_everything_is_held():
    source = np.arange(1, 20_001)
    histogram = length_histogram(source, source[::-1])
    assert max(histogram.counts.shape) <= 96
    shapes = choose_shapes(histogram, 4)
    assert shapes[-1].tolist() == [20_000, 20_000]
    held = shapes[assign_shapes(histogram, shapes)]
    assert (held[:, 0] >= source).all()
    assert (held[:, 1] >= source[::-1]).all()


@pytest.mark.parametrize(
    ("length", "rounded"),
    [(1, 8), (8, 8), (9, 12), (12, 12), (13, 16), (17, 24), (25, 32), (33, 48), (51, 64)],
)
def test_known_roundings(length, rounded):
    assert round_up(length) == rounded


def test_rounding_wastes_less_than_a_third_and_keeps_few_lengths():
    rounded = [round_up(length) for length in range(1, 1025)]
    assert len(set(rounded)) == 15
    assert all(length <= up for length, up in enumerate(rounded, start=1))
    assert all(3 * (up - length) < up for length, up in enumerate(rounded, start=1) if length > 8)
    assert [round_up(up) for up in rounded] == rounded
