import random
import sys
import types

import pytest

from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.evaluation import gold_comparison, statistical_alignment
from bahdanau_jax.evaluation.alignment_measures import LinkCounts, count_links
from bahdanau_jax.evaluation.statistical_alignment import StatisticalLinks, statistical_links


class KnownAligner:
    """Stands for eflomal's own, and remembers what it was given."""

    given: tuple = ()

    def align(self, source, target, forward, backward):
        type(self).given = list(source), list(target)
        for path, line in ((forward, "0-0 1-0"), (backward, "0-0")):
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(f"{line}\n" * len(self.given[0]))


@pytest.fixture
def known(monkeypatch):
    module = types.ModuleType("eflomal")
    module.Aligner = KnownAligner  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "eflomal", module)


def test_words_are_handed_on_as_numbers_and_training_pairs_have_no_links(known):
    pairs = [(["New York", "is"], ["Neu York"]), ([], ["x"])]
    found = statistical_links(pairs, [(["IS"], ["x", "y"])])
    assert KnownAligner.given == (["0 1", "", "1"], ["2", "3", "3 4"])
    assert found == [StatisticalLinks({(0, 0), (1, 0)}, {(0, 0)})] * 2


def test_both_ways_of_combining_are_counted():
    found = [StatisticalLinks({(0, 0), (1, 1)}, {(0, 0), (1, 0)})] * 2
    gold = [parse_line("0-0 1-0"), parse_line("1-1")]
    counts = gold_comparison._count_eflomal(found, gold)
    assert counts["eflomal"] == LinkCounts(4, 3, 2, 2)
    both = [count_links({(0, 0), (1, 0), (1, 1)}, links) for links in gold]
    assert counts["eflomal, grow-diag-final-and"] == both[0] + both[1]


def test_the_real_one_learns_the_words_of_a_made_up_language():
    pytest.importorskip("eflomal")
    draw = random.Random(0)
    sources = [draw.choices("abcdefghij", k=draw.randint(1, 8)) for _ in range(400)]
    # Read backwards, and each word once more where it is a vowel: one source word, two targets.
    targets = [[w.upper() for s in reversed(x) for w in s * (1 + (s in "ae"))] for x in sources]
    pairs = [*zip(sources, targets, strict=True)][:50]
    found = statistical_links(
        [*pairs, ([], ["A"]), (["a"], [])], zip(sources, targets, strict=True)
    )
    assert found[50:] == [StatisticalLinks(set(), set())] * 2
    linked = right = 0
    for (source, target), links in zip(pairs, found, strict=False):
        assert len({j for _, j in links.forward}) == len(links.forward)
        assert len({i for i, _ in links.backward}) == len(links.backward)
        linked += len(links.forward)
        right += sum(source[i].upper() == target[j] for i, j in links.forward)
    assert linked > 150 and right / linked > 0.9


def test_whether_it_is_installed(known, monkeypatch):
    monkeypatch.setattr(statistical_alignment.importlib.util, "find_spec", lambda name: None)
    assert not statistical_alignment.installed()
    assert "pip install eflomal" in statistical_alignment.MISSING
