import math

import numpy as np
import pytest

from bahdanau_jax.evaluation.diagnostics import diagnostics


def test_uniform_and_one_hot_alignments_have_known_figures():
    uniform = diagnostics([np.full((3, 5), 0.2, np.float32)])
    assert uniform["entropy"] == pytest.approx(math.log(5))
    assert uniform["end_weight"] == pytest.approx(20)
    assert uniform["unattended"] == pytest.approx(75)  # of equals the first token has the most

    hot = diagnostics([np.eye(4)[[0, 2, 0, 3]]])
    assert hot["entropy"] == 0
    assert hot["end_weight"] == pytest.approx(25)
    assert hot["unattended"] == pytest.approx(100 / 3)


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
