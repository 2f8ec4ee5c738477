import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.data.layout import Layout

SHAPES = np.array([[4, 3], [3, 6], [6, 5], [9, 9]])

arguments = st.fixed_dictionaries(
    {
        "rows": st.lists(st.integers(1, 9), min_size=4, max_size=4).map(np.array),
        "pairs": st.lists(st.integers(0, 60), min_size=4, max_size=4)
        .filter(any)
        .map(lambda pairs: np.array(pairs, np.int64)),
    }
)
quick = settings(max_examples=100, deadline=None)


@quick
@given(arguments)
def test_every_pair_has_one_row_of_a_shape_that_holds_it(arguments):
    slots, begins, ends, shapes = Layout(SHAPES, **arguments).place()
    pairs, rows = arguments["pairs"], arguments["rows"]
    assert np.sort(slots).tolist() == list(range(pairs.sum()))
    assert begins.tolist() == [0, *ends[:-1]]
    assert ends[-1] == len(slots)
    own = SHAPES[np.repeat(np.arange(4), pairs)]
    for begin, end, shape in zip(begins, ends, shapes, strict=True):
        assert 0 < end - begin <= rows[shape]
        assert (own[slots[begin:end]] <= SHAPES[shape]).all()
    assert np.count_nonzero(ends - begins < rows[shapes]) <= 1


@quick
@given(arguments)
def test_the_padded_tokens_are_those_of_the_batches(arguments):
    layout = Layout(SHAPES, **arguments)
    *_, shapes = layout.place()
    assert layout.padded == (arguments["rows"] * SHAPES.sum(axis=1))[shapes].sum()


def test_what_is_left_of_a_shape_goes_to_the_next_that_holds_it():
    # Two of (4, 3) and one of (3, 6) remain; (3, 6) can't hold a source of four tokens.
    pairs, rows = np.array([6, 5, 2, 3]), np.array([4, 4, 4, 4])
    _, _, _, shapes = Layout(SHAPES, rows, pairs).place()
    assert shapes.tolist() == [0, 1, 2, 3]


def test_the_ragged_batch_is_set_aside_in_the_smallest_shape():
    slots, begins, ends, shapes = Layout(SHAPES, np.full(4, 4), np.array([6, 4, 4, 4])).place()
    ragged = np.flatnonzero(ends - begins < 4)
    assert shapes[ragged].tolist() == [0]
    assert slots[begins[ragged[0]] : ends[ragged[0]]].tolist() == [4, 5]
