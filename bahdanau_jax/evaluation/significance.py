"""Is a difference more than noise? Between test sentences, between seeds, and over many pairs.

Two sources of noise decide how far a mean over seeds may be off: another sample of test sentences
(Koehn 2004, paired bootstrap: the same sentences for both systems) and other seeds (Welch 1947).
Nothing here knows what a model is: arrays in, figures out.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

RESAMPLES = 1000
CONFIDENCE = 0.95
_CHUNK = 100  # resamples at a time: their counts are an array of so many rows

Score = Callable[[np.ndarray], np.ndarray]  # sums float64[..., K] -> figures float64[...]


class Summary(NamedTuple):
    """Figures of several seeds."""

    mean: float
    deviation: float  # of the sample, n - 1; NaN for a single seed
    count: int


class Difference(NamedTuple):
    """How much two systems differ, first minus second, and how sure that is.

    Attributes:
      value: difference of the means over seeds.
      sentences: limits of the 95 % interval over samples of test sentences; NaN where unknown.
      seeds_p: p of Welch's test over seeds; NaN where a system has one seed.
      low, high: limits of the 95 % interval over both.
      p: two-sided, over both.
      seeds: of the system that has fewer.
    """

    value: float
    sentences: tuple[float, float]
    seeds_p: float
    low: float
    high: float
    p: float
    seeds: int


def summary(figures: Sequence[float]) -> Summary:
    """Returns mean and standard deviation over seeds.

    Args:
      figures: one a seed, at least one.
    """
    values = np.asarray(figures, np.float64)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return Summary(float(values.mean()), deviation, len(values))


def bootstrap(
    statistics: Sequence[np.ndarray], score: Score, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Scores several runs on samples of the test sentences, drawn with replacement.

    The r-th sample is the same for every run, so that differences of two runs are paired.

    Args:
      statistics: of each run, float64[N, K]: what is summed over the N test sentences.
      score: the figure that follows from the sums.
      resamples: R, samples.
      seed: of the samples.

    Returns:
      float64[runs, R].

    Raises:
      ValueError: the runs have different numbers of sentences, or none.
    """
    sentences = {len(s) for s in statistics}
    if len(sentences) != 1 or sentences == {0}:
        raise ValueError(f"runs must share their test sentences; there are {sorted(sentences)}")
    (count,) = sentences
    generator = np.random.default_rng(seed)
    # Pairing needs the same samples for all, so all runs' statistics stand side by side.
    joined = np.concatenate([np.asarray(s, np.float64) for s in statistics], axis=1)
    ends = np.cumsum([s.shape[1] for s in statistics])[:-1]
    scores = np.empty((len(statistics), resamples))
    for begin in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - begin)
        drawn = generator.integers(count, size=(rows, count)) + np.arange(rows)[:, None] * count
        weights = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        sums = np.split(weights.astype(np.float64) @ joined, ends, axis=1)
        for run, of_run in enumerate(sums):
            scores[run, begin : begin + rows] = score(of_run)
    return scores


def difference(
    first: Sequence[float],
    second: Sequence[float],
    first_samples: np.ndarray | None = None,
    second_samples: np.ndarray | None = None,
) -> Difference:
    """Compares two systems by their seeds and, where there are samples, by their sentences.

    The interval over both adds the variances of the two sources, with Satterthwaite's degrees of
    freedom for what comes from the seeds. With one seed, its noise is unknown and left out.

    Args:
      first: a figure of each seed of one system, at least one.
      second: of the other's.
      first_samples: float64[seeds, R] from `bootstrap`, paired with `second_samples`.
      second_samples: the other's.

    Returns:
      The difference, first minus second.
    """
    a, b = summary(first), summary(second)
    value = a.mean - b.mean
    sampled, limits = 0.0, (math.nan, math.nan)
    if first_samples is not None and second_samples is not None:
        differences = first_samples.mean(axis=0) - second_samples.mean(axis=0)
        sampled = float(differences.var(ddof=1))
        low, high = np.quantile(differences, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        limits = (float(low), float(high))
    enough = a.count > 1 and b.count > 1
    parts = [s.deviation**2 / s.count if enough else 0.0 for s in (a, b)]
    freedom = _satterthwaite(parts, [a.count - 1, b.count - 1])
    seeds_p = _p(value, sum(parts), freedom) if enough else math.nan
    variance = sum(parts) + sampled
    # The bootstrap's variance counts as known; the seeds' has the freedom of their number.
    total = freedom * (variance / sum(parts)) ** 2 if sum(parts) > 0 else math.inf
    known = variance > 0 or enough or first_samples is not None
    reach = _quantile(total) * math.sqrt(variance) if known else math.nan
    p = _p(value, variance, total) if known else math.nan
    fewer = min(a.count, b.count)
    return Difference(value, limits, seeds_p, value - reach, value + reach, p, fewer)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts the p values of several comparisons (Holm 1979); NaN stays NaN and isn't counted.

    Args:
      p_values: of all comparisons that were made.

    Returns:
      Adjusted values: those below 0.05 hold together with an error of at most 5 %.
    """
    known = sorted((p, place) for place, p in enumerate(p_values) if not math.isnan(p))
    adjusted, least = [math.nan] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - rank)))
        adjusted[place] = least
    return adjusted


def _satterthwaite(parts: Sequence[float], freedoms: Sequence[int]) -> float:
    below = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True) if part)
    return sum(parts) ** 2 / below if below else math.inf


def _p(value: float, variance: float, freedom: float) -> float:
    """Returns the two-sided p of Student's t for a difference of this variance."""
    if variance <= 0:
        return 1.0 if value == 0 else 0.0
    t = abs(value) / math.sqrt(variance)
    if math.isinf(freedom):
        return float(2 * special.ndtr(-t))
    return float(2 * special.stdtr(freedom, -t))


def _quantile(freedom: float) -> float:
    upper = (1 + CONFIDENCE) / 2
    return float(special.ndtri(upper) if math.isinf(freedom) else special.stdtrit(freedom, upper))
