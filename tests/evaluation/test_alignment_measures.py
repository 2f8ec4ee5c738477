import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.gold_links import GoldLinks, parse_line
from bahdanau_jax.evaluation.alignment_measures import (
    OFFSETS,
    LinkCounts,
    accuracy,
    argmax_links,
    best_offset,
    count_links,
    diagnostics,
    diagonal_links,
    links,
    moved_links,
    threshold_links,
)

places = st.integers(0, 6)
link_sets = st.frozensets(st.tuples(places, places), max_size=20)


def gold(line):
    return parse_line(line)


def test_counts_and_rates_computed_by_hand():
    # S = {00, 11, 22}, P = S and {12, 21}. A = {00, 12, 33, 21}: one sure, three possible.
    counts = count_links({(0, 0), (1, 2), (3, 3), (2, 1)}, gold("0-0 1-1 2-2 1?2 2?1"))
    assert counts == LinkCounts(found=4, sure=3, found_sure=1, found_possible=3)
    assert counts.precision == pytest.approx(75)
    assert counts.recall == pytest.approx(100 / 3)
    assert counts.aer == pytest.approx(100 * (1 - (1 + 3) / (4 + 3)))


@given(link_sets, link_sets, link_sets)
def test_the_rates_are_their_definitions(found, sure, more):
    possible = sure | more
    counts = count_links(found, GoldLinks(sure, possible))
    if found or sure:
        expected = 1 - (len(found & sure) + len(found & possible)) / (len(found) + len(sure))
        assert counts.aer == pytest.approx(100 * expected)
        assert -1e-9 <= counts.aer <= 100
    else:
        assert math.isnan(counts.aer)
    if found:
        assert counts.precision == pytest.approx(100 * len(found & possible) / len(found))
    if sure:
        assert counts.recall == pytest.approx(100 * len(found & sure) / len(sure))


@given(link_sets)
def test_gold_against_itself_has_no_error_and_against_others_only_errors(found):
    if found:
        assert count_links(found, GoldLinks(found, found)).aer == 0
        others = frozenset((i + 7, j) for i, j in found)
        assert count_links(others, GoldLinks(found, found)).aer == 100


@given(link_sets, link_sets)
def test_without_merely_possible_links_it_is_one_minus_the_f_measure(found, sure):
    counts = count_links(found, GoldLinks(sure, sure))
    if found & sure:
        f = 2 * counts.precision * counts.recall / (counts.precision + counts.recall)
        assert counts.aer == pytest.approx(100 - f)


def test_leaving_out_merely_possible_links_costs_nothing_and_finding_them_neither():
    known = gold("0-0 1?1 1?2")
    assert count_links({(0, 0)}, known).aer == 0
    assert count_links({(0, 0), (1, 2)}, known).aer == 0
    assert count_links({(1, 2)}, known).aer == pytest.approx(50)


def test_counts_are_summed_before_they_are_divided():
    first = count_links({(0, 0)}, gold("0-0"))
    second = count_links({(0, 0), (1, 0), (2, 0)}, gold("0-1"))
    both = first + second
    assert both.aer == pytest.approx(100 * (1 - 2 / 6))
    assert both.aer != pytest.approx((first.aer + second.aer) / 2)


WEIGHTS = np.array(
    [
        [0.7, 0.2, 0.1, 0.0],
        [0.1, 0.2, 0.3, 0.4],  # the end of the sentence
        [0.4, 0.4, 0.1, 0.1],  # the first of equals
        [0.0, 0.0, 0.0, 0.0],  # nothing, as with a window beside the sentence
    ]
)


def test_links_by_argmax_and_by_threshold():
    assert argmax_links(WEIGHTS) == {(0, 0), (0, 2)}
    assert threshold_links(WEIGHTS, 0.2) == {
        (0, 0),
        (1, 0),
        (1, 1),
        (2, 1),
        (0, 2),
        (1, 2),
    }
    assert threshold_links(WEIGHTS, 0.4) == {(0, 0), (0, 2), (1, 2)}
    assert links(WEIGHTS, None) == argmax_links(WEIGHTS)
    assert links(WEIGHTS, 0.4) == threshold_links(WEIGHTS, 0.4)


@pytest.mark.parametrize("shape", [(0, 4), (2, 1), (0, 1)])
def test_no_words_on_a_side_give_no_links(shape):
    weights = np.ones(shape)
    assert argmax_links(weights) == threshold_links(weights, 0.1) == set()


def test_the_diagonal_runs_through_the_middles_of_the_words():
    assert diagonal_links(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal_links(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal_links(4, 2) == {(1, 0), (3, 1)}
    assert diagonal_links(0, 3) == diagonal_links(3, 0) == set()
    for source in range(1, 9):
        for target in range(1, 9):
            found = diagonal_links(source, target)
            assert {j for _, j in found} == set(range(target))
            for i, j in found:
                assert i <= (j + 0.5) / target * source <= i + 1
            # Read from the other end, it's the same line, but for ties between two words.
            mirrored = {(source - 1 - i, target - 1 - j) for i, j in found}
            ties = {j for j in range(target) if (2 * j + 1) * source % (2 * target) == 0}
            assert {x for x in mirrored ^ found if x[1] not in ties} == set()


def test_alignments_are_right_where_the_known_position_has_the_largest_weight():
    first = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.0, 0.0, 1.0]])
    second = np.array([[0.4, 0.6]])
    assert accuracy([first], [[1, 0, 2]]) == 100
    assert accuracy([first], [[1, 2, 2]]) == pytest.approx(200 / 3)
    # Positions are counted over all outputs and divided once: 2 of 4, and not the mean of 1/3, 1.
    assert accuracy([first, second], [[1, 2, 0], [1]]) == 50


def test_rows_behind_the_known_ones_do_not_count_and_missing_rows_are_wrong():
    weights = np.eye(3)
    assert accuracy([weights], [[0, 1]]) == 100
    assert accuracy([weights], [[0, 1, 2, 2]]) == 75
    assert accuracy([np.zeros((0, 3))], [[0, 1]]) == 0
    assert math.isnan(accuracy([weights], [[]]))
    with pytest.raises(ValueError, match="zip"):
        accuracy([weights], [])


def test_uniform_and_one_hot_alignments_have_known_figures():
    uniform = diagnostics([np.full((3, 5), 0.2, np.float32)])
    assert uniform["entropy"] == pytest.approx(math.log(5))
    assert uniform["end_weight"] == pytest.approx(20)
    assert uniform["unattended"] == pytest.approx(75)  # of equals the first token has the most

    hot = diagnostics([np.eye(4)[[0, 2, 0, 3]]])
    assert hot["entropy"] == 0
    assert hot["end_weight"] == pytest.approx(25)
    assert hot["unattended"] == pytest.approx(100 / 3)


def shifted(size, offset):
    """A square alignment, its weights `offset` to the right of the diagonal, or at the ends."""
    positions = np.clip(np.arange(size) + offset, 0, size - 1)
    return np.eye(size)[positions] * 0.9 + 0.1 / size


@pytest.mark.parametrize("offset", [-3, -2, -1, 0, 1, 2, 3])
def test_the_offset_is_positive_where_weights_lie_to_the_right(offset):
    alignments = [shifted(size, offset) for size in (9, 12, 20)]
    found = diagnostics(alignments)["offset"]
    assert isinstance(found, float) and found == offset
    # Beside known positions, here those of a reversal, whatever the diagonal says.
    reversals = [alignment[::-1] for alignment in alignments]
    known = [list(range(len(alignment)))[::-1] for alignment in alignments]
    assert diagnostics(reversals, known)["offset"] == offset


def test_the_offset_is_that_of_most_steps_and_of_equals_the_smallest():
    right, left = shifted(20, 1), shifted(20, -1)
    assert diagnostics([right, right, left])["offset"] == 1
    assert diagnostics([np.full((9, 9), 1 / 9)])["offset"] == 0  # every step: the first token
    assert diagnostics([np.eye(5)[[1, 1, 2]]], [[0, 1, 1]])["offset"] == 1
    assert diagnostics([np.eye(5)[[1, 1]]], [[0, 1]])["offset"] == 0


def test_weights_on_the_end_mark_and_rows_without_any_have_no_offset():
    ends = np.zeros((3, 4))
    ends[:, -1] = 1
    for alignments in ([ends], [np.zeros((3, 4))], [], [np.zeros((0, 4))]):
        assert math.isnan(diagnostics(alignments)["offset"])
    mixed = np.vstack([ends, np.eye(4)[[1, 2]]])
    assert diagnostics([mixed], [[0, 0, 0, 0, 1]])["offset"] == 1


def test_links_are_moved_back_by_an_offset_and_left_out_beyond_the_sentence():
    weights = np.array([[0.1, 0.7, 0.2, 0.0], [0.0, 0.3, 0.1, 0.6], [0.8, 0.1, 0.1, 0.0]])
    assert moved_links(weights, None, 0) == argmax_links(weights) == {(1, 0), (0, 2)}
    # The end of the sentence, one to the right of the last word, stands for that word then.
    assert moved_links(weights, None, 1) == {(0, 0), (2, 1)}
    assert moved_links(weights, None, -1) == {(2, 0), (1, 2)}
    assert moved_links(weights, 0.3, 1) == {(0, 0), (0, 1), (2, 1)}
    assert moved_links(weights, 0.3, 0) == threshold_links(weights, 0.3)


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 3])
def test_the_best_offset_is_that_of_the_lowest_error_against_gold_links(offset):
    known = gold(" ".join(f"{8 - j}-{j}" for j in range(9)))  # from right to left
    weights = np.zeros((9, 10))
    weights[np.arange(9), np.clip(8 - np.arange(9) + offset, 0, 9)] = 1
    counts = {k: count_links(moved_links(weights, None, k), known) for k in OFFSETS}
    assert best_offset(counts) == offset
    assert counts[offset].aer < 40 and (offset == 0) == (counts[0].aer == 0)
    assert best_offset(dict.fromkeys(OFFSETS, LinkCounts())) is None
    assert best_offset(dict.fromkeys(OFFSETS, LinkCounts(2, 2, 1, 1))) == 0


def test_figures_are_sums_over_all_sentences_as_loops_compute_them():
    chance = np.random.default_rng(0)
    shapes = [(3, 4), (1, 2), (6, 9), (2, 1)]
    alignments = [chance.dirichlet(np.ones(s), t) for t, s in shapes]
    entropies, ends, seen, tokens = [], [], 0, 0
    for alignment in alignments:
        for row in alignment:
            entropies.append(-sum(a * math.log(a) for a in row))
            ends.append(row[-1])
        heaviest = {max(range(len(row)), key=lambda j: row[j]) for row in alignment}
        seen += sum(j in heaviest for j in range(alignment.shape[1] - 1))
        tokens += alignment.shape[1] - 1
    found = diagnostics(alignments)
    assert found["entropy"] == pytest.approx(np.mean(entropies))
    assert found["end_weight"] == pytest.approx(100 * np.mean(ends))
    assert found["unattended"] == pytest.approx(100 * (1 - seen / tokens))


def test_nothing_to_count_is_no_number():
    for alignments in ([], [np.zeros((0, 4))], [np.zeros((2, 4))]):
        found = diagnostics(alignments)
        assert math.isnan(found["entropy"])
        assert math.isnan(found["end_weight"])
    assert math.isnan(diagnostics([])["unattended"])
    assert diagnostics([np.zeros((2, 4))])["unattended"] == 100
