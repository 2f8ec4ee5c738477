import numpy as np
import pytest

from bahdanau_jax.data.corpus import Example
from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import statistical_alignment
from bahdanau_jax.evaluation.alignment_measures import LinkCounts, count_links, threshold_links
from bahdanau_jax.evaluation.gold_comparison import (
    THRESHOLDS,
    compare_with_gold,
    count_methods,
    with_gold,
)
from bahdanau_jax.evaluation.statistical_alignment import StatisticalLinks
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.evaluation.word_alignment import WordAlignment

WEIGHTS = np.array([[0.6, 0.3, 0.1, 0.0], [0.1, 0.1, 0.15, 0.65], [0.05, 0.05, 0.7, 0.2]])
PAIR = WordAlignment(["x", "y", "z"], ["a", "b", "c"], WEIGHTS, [1, 2, 1])


def test_every_method_is_compared_with_the_same_gold_links():
    gold = parse_line("0-0 1-1 2-2 1?0")
    found = count_methods([PAIR], [gold])
    assert found.argmax == [LinkCounts(2, 3, 2, 2)]  # the second word looks at the end
    assert found.methods["argmax"] == found.argmax[0]
    assert found.methods["diagonal"] == LinkCounts(3, 3, 3, 3)
    # All tokens alike: the source word with most pieces, for every target word.
    assert found.methods["uniform"] == count_links({(1, 0), (1, 1), (1, 2)}, gold)
    for threshold in THRESHOLDS:
        links = threshold_links(WEIGHTS, threshold)
        assert found.methods[f"threshold {threshold}"] == count_links(links, gold)
    figures = found.figures()
    assert figures["aer"] == pytest.approx(100 * (1 - 4 / 5))
    assert figures["alignment_precision"] == 100
    assert figures["alignment_recall"] == pytest.approx(200 / 3)
    assert figures["aer_diagonal"] == 0
    assert (figures["offset"], figures["aer_at_offset"]) == (0, figures["aer"])


def test_the_error_is_told_at_the_offset_too():
    weights = np.eye(5)[1:]  # four words, each of which attends to the next
    pair = WordAlignment(list("wxyz"), list("abcd"), weights, [1] * 4)
    figures = count_methods([pair], [parse_line("0-0 1-1 2-2 3-3")]).figures()
    assert (figures["aer"], figures["offset"], figures["aer_at_offset"]) == (100, 1, 0)
    none = count_methods([pair._replace(weights=0 * weights)], [parse_line("")]).figures()
    assert np.isnan([none["aer"], none["offset"], none["aer_at_offset"]]).all()


def test_counts_are_summed_over_the_pairs():
    gold = [parse_line("0-0"), parse_line("1-1 0?1")]
    both = count_methods([PAIR, PAIR], gold)
    alone = [count_methods([PAIR], [links]) for links in gold]
    for name, counts in both.methods.items():
        assert counts == alone[0].methods[name] + alone[1].methods[name]
    assert both.argmax == alone[0].argmax + alone[1].argmax


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


def split_of(words):
    examples = [Example(word, (" ".join(word.upper()), "A")) for word in words]
    none = TokenStore.from_pairs([])
    return EvaluationSplit("test", examples, none, none)


def test_a_runs_own_links_as_gold_leave_no_error(run, tmp_path):
    words = ["fed", "cafe", "ab"]
    empty = split_of(words)._replace(links=[parse_line("")] * 3)
    found = compare_with_gold(run, empty)
    assert found.figures()["aer"] == 100
    assert [counts.found for counts in found.argmax] != [0, 0, 0]

    path = tmp_path / "gold"
    path.write_text("0-0 1-1 2-2\n0-0 1-1 2-2 3-3\n0-0 1-1\n")
    split = with_gold(run, split_of(words), str(path))
    figures = compare_with_gold(run, split).figures()
    assert figures["aer_diagonal"] == 0
    assert 0 <= figures["aer"] <= 100


@pytest.mark.parametrize("installed", [True, False])
def test_eflomal_stands_beside_the_run_where_it_is_installed(run, monkeypatch, capsys, installed):
    given = []

    def links(pairs, training):
        given.extend([pairs, training])
        return [StatisticalLinks({(0, 0)}, {(0, 0)})] * len(pairs)

    monkeypatch.setattr(statistical_alignment, "installed", lambda: installed)
    monkeypatch.setattr(statistical_alignment, "statistical_links", links)
    split = split_of(["fed", "ab"])._replace(links=[parse_line("0-0"), parse_line("0-0 1-1")])
    comparison = compare_with_gold(run, split, [("de", "D E")])
    assert comparison.figures().get("aer_eflomal") == (pytest.approx(20) if installed else None)
    assert ("pip install eflomal" in capsys.readouterr().err) == (not installed)
    if installed:
        assert given == [
            [(["f", "e", "d"], ["F", "E", "D"]), (["a", "b"], ["A", "B"])],
            [(["d", "e"], ["D", "E"])],
        ]


def test_links_are_checked_against_the_words_of_the_split(run, tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0\n4-0\n0-0\n")
    with pytest.raises(InputError, match="pair 2 has a link 4-0"):
        with_gold(run, split_of(["fed", "cafe", "ab"]), str(path))
