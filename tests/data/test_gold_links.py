import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.gold_links import GoldLinks, format_line, parse_line, read_gold
from bahdanau_jax.errors import InputError

TABLE = "1\t1\t1\tS\n1\t3\t2\n3\t2\t3\tp\n1\t2\t2\tP\n\n3\t2\t3\tS\n3\t2\t3\tP\n"
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
    assert read_gold(write(tmp_path, TABLE), PAIRS) == EXPECTED


@pytest.mark.parametrize("first", ["0", "1", "0001", "17", "0400"])
@pytest.mark.parametrize("between", ["\t", " ", "  "])
def test_a_table_may_number_its_pairs_otherwise_and_divide_its_columns_by_spaces(
    tmp_path, first, between
):
    rows = [line.split("\t") for line in TABLE.splitlines() if line]
    numbered = [[f"{int(row[0]) - 1 + int(first):0{len(first)}}", *row[1:]] for row in rows]
    table = "".join(f"{between.join(row)}\n" for row in numbered)
    assert read_gold(write(tmp_path, table), PAIRS) == EXPECTED


def test_a_table_whose_first_pair_has_no_link_is_numbered_from_1(tmp_path):
    empty = GoldLinks(frozenset(), frozenset())
    gold = read_gold(write(tmp_path, "3 2 3\n"), PAIRS)
    assert gold == [empty, empty, EXPECTED[2]]


def test_words_may_be_counted_from_either_number(tmp_path):
    lines = write(tmp_path, "1-1 2?2 3-2\n\n2-3\n")
    assert read_gold(lines, PAIRS, base=1) == EXPECTED
    table = write(tmp_path, "1 0 0\n1 2 1 S\n1 1 1 P\n3 1 2\n")
    assert read_gold(table, PAIRS, base=0) == EXPECTED


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
        ("0\t1\t1\n3\t1\t1\n", "line 2: there are 3 pairs, .* numbers from 0 to 3"),
        ("7 1 1\n11 1 1\n", "line 2: there are 3 pairs, .* numbers from 7 to 11"),
        ("1\t0\t1\n3 2 3\n", r"line 1: pair 1 has a link 0-1 \(counted from 1\)"),
        ("1\t1\t3\n", r"line 1: pair 1 has a link 1-3 \(.* only 3 source and 2 target words$"),
        ("1 1 1 S 0.5\n", "line 1: needs pair"),
        ("3 2 3\n1 1 3\n", "line 2: pair 1 has a link 1-3"),
        ("0-0\n\n0-0 2-2\n", "line 3: pair 3 has a link 2-2 .* only 2 source and 3 target words$"),
        ("1-1 3-2\n\n2-3\n", "line 1: .*; counted from 1, all links fit: give --gold_base=1"),
        ("1 0 0\n3 1 2\n", "line 1: .*; counted from 0, all links fit: give --gold_base=0"),
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
