import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bahdanau_jax.evaluation.significance import (
    bootstrap,
    difference,
    estimate,
    holm,
    quantiles,
    summary,
)


def ratio(sums):
    return 100 * sums[..., 0] / sums[..., 1]


def test_a_summary_is_mean_and_deviation_of_a_sample():
    assert summary([1.0, 2.0, 6.0])[:2] == pytest.approx((3.0, math.sqrt(7)))
    assert summary([5.0]).mean == 5.0
    assert math.isnan(summary([5.0]).deviation)


def test_a_sample_of_sentences_scores_all_runs_on_the_same_sentences():
    chance = np.random.default_rng(0)
    counts = chance.integers(1, 9, (40, 1))
    edits = chance.integers(0, 3, (40, 1))
    run = np.hstack([edits, counts])
    shifted = np.hstack([edits + counts, counts])  # one more error a symbol, in every sample
    scores = bootstrap([run, shifted, run], ratio, resamples=130)
    assert scores.shape == (3, 130)
    np.testing.assert_array_equal(scores[0], scores[2])
    np.testing.assert_allclose(scores[1] - scores[0], 100.0)
    assert len(np.unique(scores[0])) > 100


def test_samples_spread_as_theory_says():
    # The mean of N draws has the variance p (1 - p) / N.
    wrong = np.zeros(400)
    wrong[:100] = 1
    scores = bootstrap([np.stack([wrong, np.ones(400)], axis=1)], ratio, resamples=4000)
    assert scores.mean() == pytest.approx(25.0, abs=0.15)
    assert scores.std() == pytest.approx(100 * math.sqrt(0.25 * 0.75 / 400), rel=0.05)


def test_runs_of_other_sentences_are_refused():
    with pytest.raises(ValueError, match="share their test sentences"):
        bootstrap([np.ones((3, 2)), np.ones((4, 2))], ratio)
    with pytest.raises(ValueError, match="share their test sentences"):
        bootstrap([np.ones((0, 2))], ratio)


def test_without_sentences_it_is_welchs_test():
    first, second = [30.1, 30.9, 29.8, 30.4], [31.5, 30.7, 32.4]
    found = difference(first, second)
    wanted: Any = stats.ttest_ind(first, second, equal_var=False)
    interval = wanted.confidence_interval()
    assert found.value == pytest.approx(np.mean(first) - np.mean(second))
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.noise.sources == ("seeds",)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.seeds == 3


def test_with_one_seed_it_is_the_sentences_alone():
    chance = np.random.default_rng(1)
    first, second = chance.normal(2.0, 0.5, (1, 3000)), np.zeros((1, 3000))
    found = difference([2.0], [0.0], first, second)
    assert found.noise.sources == ("sentences",)
    assert found.seeds == 1
    assert (found.low, found.high) == pytest.approx((2 - 1.96 * 0.5, 2 + 1.96 * 0.5), abs=0.05)
    assert quantiles(first[0]) == pytest.approx((found.low, found.high), abs=0.08)


def test_both_sources_of_noise_add_up():
    first, second = [1.0, 3.0, 2.0], [0.0, 2.0, 1.0]
    alone = difference(first, second)
    samples = np.random.default_rng(2).normal(1.0, 0.7, (3, 2000))
    samples -= samples.mean(axis=0) - np.random.default_rng(3).normal(1.0, 0.7, 2000)
    both = difference(first, second, samples, np.zeros((3, 2000)))
    assert both.high - both.low > alone.high - alone.low
    assert both.p > alone.p
    assert both.noise.sources == ("sentences", "seeds")
    # Variances 1/3 + 1/3 of the seeds, 0.49 of the sentences; freedom grows as theirs are known.
    variance = 2 / 3 + 0.49
    freedom = 4 * (variance / (2 / 3)) ** 2
    reach = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert (both.high - both.low) / 2 == pytest.approx(reach, rel=0.05)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    chance = np.random.default_rng(4)
    covered = 0
    for _ in range(400):
        # A difference of 1 in truth; sentences shift it for all seeds alike, seeds each their own.
        shift = chance.normal(0, 0.5)
        first = 1 + shift + chance.normal(0, 0.6, 3)
        second = chance.normal(0, 0.6, 3)
        samples = first.mean() - second.mean() + chance.normal(0, 0.5, (1, 300))
        found = difference(list(first), list(second), np.repeat(samples, 3, 0), np.zeros((3, 300)))
        covered += found.low <= 1 <= found.high
    assert 0.92 <= covered / 400 <= 0.985


def test_equal_runs_do_not_differ():
    samples = np.ones((2, 50))
    found = difference([4.0, 4.0], [4.0, 4.0], samples, samples)
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_nothing_is_claimed_of_two_figures_alone():
    found = difference([4.0], [5.0])
    assert math.isnan(found.p) and math.isnan(found.low)


def test_equal_figures_of_a_few_seeds_say_nothing_of_the_noise():
    found = difference([4.0, 4.0], [5.0, 5.0])
    assert math.isnan(found.p) and math.isnan(found.low) and math.isnan(found.noise.smallest())
    assert found.noise.sources == ()
    assert difference([4.0, 4.0], [5.0, 5.0], np.zeros((2, 9)), np.ones((2, 9))).p == 0


def test_the_interval_of_one_system_is_that_of_its_noise():
    samples = np.linspace(0, 100, 1001)[None]
    assert estimate([50.0], samples) == pytest.approx((50, 2.5, 97.5))
    # Several seeds: the mean's own variance, with Student's t.
    mean, low, high = estimate([1.0, 2.0, 3.0])
    reach = stats.t.ppf(0.975, 2) * math.sqrt(1 / 3)
    assert (mean, low, high) == pytest.approx((2, 2 - reach, 2 + reach))
    assert math.isnan(estimate([1.0]).low)


@pytest.mark.parametrize(("seeds", "shift"), [(1, 0.5), (2, 0.0), (3, 0.0), (3, 0.5), (5, 0.3)])
@pytest.mark.parametrize("comparisons", [1, 15])
def test_the_smallest_difference_is_found_in_four_of_five_simulations(seeds, shift, comparisons):
    deviation, repetitions = 0.6 if seeds > 1 else 0.0, 4000
    samples = np.tile([shift / math.sqrt(2), -shift / math.sqrt(2)], (seeds, 1))
    zero = np.zeros((seeds, 2))
    given = (samples, zero) if shift else (None, None)
    # Seeds whose deviation is the true one: what the formula gives for known variances.
    spread = np.linspace(-1, 1, seeds)
    spread *= deviation / spread.std(ddof=1) if seeds > 1 else 0
    smallest = difference(list(spread + 9), list(spread), *given).noise.smallest(comparisons)
    chance, hits = np.random.default_rng(seeds), 0
    for _ in range(repetitions):
        first, second = chance.normal(0, deviation, (2, seeds))
        first = first + smallest + chance.normal(0, shift)
        hits += difference(list(first), list(second), *given).p * comparisons < 0.05
    assert hits / repetitions == pytest.approx(0.8, abs=0.03)


def test_holms_adjustment_is_that_of_the_textbook():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    adjusted = holm([math.nan, 0.02])
    assert math.isnan(adjusted[0]) and adjusted[1] == 0.02
