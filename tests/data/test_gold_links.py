import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.gold_links import GoldLinks, format_line, parse_line, read_gold
from bahdanau_jax.errors import InputError

places = st.integers(0, 300)
links = st.frozensets(st.tuples(places, places), max_size=30)
PAIRS = [(["a", "b", "c"], ["x", "y"]), (["a"], []), (["a", "b"], ["x", "y", "z"])]
EXPECTED = [
    GoldLinks(frozenset({(0, 0), (2, 1)}), frozenset({(0, 0), (2, 1), (1, 1)})),
    GoldLinks(frozenset(), frozenset()),
    GoldLinks(frozenset({(1, 2)}), frozenset({(1, 2)})),
]


def write(directory, text):
    path = directory / "gold.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@given(links)
def test_what_is_written_is_read_again(found):
    assert parse_line(format_line(found)) == (found, found)


def test_a_line_is_in_the_order_of_the_source_words():
    assert format_line({(10, 0), (2, 3), (2, 1)}) == "2-1 2-3 10-0"
    assert format_line([]) == ""


def test_possible_links_have_a_mark_and_sure_ones_are_among_them():
    assert parse_line(" 0-0\t1?2  2p0 ") == ({(0, 0)}, {(0, 0), (1, 2), (2, 0)})
    assert parse_line("0?0 0-0 0?0") == ({(0, 0)}, {(0, 0)})  # in any order: sure


@pytest.mark.parametrize("text", ["1", "1-", "-1", "1--2", "1-2-3", "a-b", "1:2", "1.0-2", "٣-١"])
def test_what_is_no_link_is_named(text):
    with pytest.raises(ValueError, match="is no link; write i-j") as caught:
        parse_line(f"0-0 {text}")
    assert repr(text) in str(caught.value)


def test_a_file_of_lines_and_a_table_say_the_same(tmp_path):
    lines = write(tmp_path, "0-0 1?1 2-1\n\n1-2\n")
    assert read_gold(lines, PAIRS) == EXPECTED
    table = "1\t1\t1\tS\n1\t3\t2\n3\t2\t3\tp\n1\t2\t2\tP\n\n3\t2\t3\tS\n3\t2\t3\tP\n"
    assert read_gold(write(tmp_path, table), PAIRS) == EXPECTED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-0\n", "1 lines of links, but there are 3 pairs"),
        ("0-0\n\n\n\n", "4 lines of links"),
        ("0-0\nx\n\n", "line 2: 'x' is no link"),
        ("3-0\n\n\n", "pair 1 has a link 3-0 .* but only 3 source and 2 target words"),
        ("0-0\n\n0?3\n", "pair 3 has a link 0-3"),
        ("0-0\n0-0\n\n", "pair 2 has a link 0-0"),
        ("1\t1\n", "line 1: needs pair, source word and target word"),
        ("1\t1\t1\tX\n", "line 1: needs pair"),
        ("1\t1\t1\nx\t1\t1\n", "line 2: needs pair"),
        ("4\t1\t1\n", "line 1: there are 3 pairs"),
        ("0\t1\t1\n", "line 1: there are 3 pairs"),
        ("1\t0\t1\n", "line 1: .*counted from 1"),
        ("1\t1\t3\n", "pair 1 has a link 0-2"),
        (b"0-0\n\xff\n\n", "line 2: not UTF-8"),
        (b"0-0\n\0\n\n", "line 2: a NUL byte"),
    ],
)
def test_a_wrong_file_is_answered_by_one_line(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=said) as caught:
        read_gold(path, PAIRS)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"can't read .*absent"):
        read_gold(tmp_path / "absent", PAIRS)
