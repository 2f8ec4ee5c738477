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
POWER = 0.8  # chance that a true difference of the smallest size is found
_DRAWS = 10_000  # of a Monte Carlo integration
_CHUNK = 100  # resamples at a time: their counts are an array of so many rows

Score = Callable[[np.ndarray], np.ndarray]  # sums float64[..., K] -> figures float64[...]


class Summary(NamedTuple):
    """Figures of several seeds."""

    mean: float
    deviation: float  # of the sample, n - 1; NaN for a single seed
    count: int


class Noise(NamedTuple):
    """How far a mean over seeds, or a difference of two, may be off.

    Attributes:
      sentences: variance between samples of the test sentences; None: not known.
      seeds: of each system the variance of its mean over seeds; empty: not known.
      freedoms: of each system's variance.
    """

    sentences: float | None
    seeds: tuple[float, ...] = ()
    freedoms: tuple[int, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources that are known, of `sentences` and `seeds`."""
        return ("sentences",) * (self.sentences is not None) + ("seeds",) * bool(self.seeds)

    @property
    def variance(self) -> float:
        """The sum over the sources; NaN where none is known."""
        return (self.sentences or 0.0) + sum(self.seeds) if self.sources else math.nan

    def reach(self) -> float:
        """Returns half the width of the 95 % interval."""
        reach = _reach(np.array(self.seeds), self, (1 + CONFIDENCE) / 2)
        return float(reach) if self.sources else math.nan

    def smallest(self, comparisons: int = 1) -> float:
        """Returns the smallest difference that is found with a power of 80 %.

        A true difference d is found where d + ε exceeds the reach of its interval. With one seed
        the reach is known, and d = (z_{1-α/2} + z_0.8) σ (Bloom 1995, "Minimum Detectable
        Effects").
        With more it varies as the estimated variances do, σ² χ²_f / f (Welch 1947): then d is the
        0.8 quantile of reach - ε over both, by Monte Carlo integration, so that the power
        (Cohen 1988, "Statistical Power Analysis for the Behavioral Sciences", 1.2) is 0.8.
        The variances that were found stand for the true ones.

        Args:
          comparisons: among which the difference has to hold: α = 0.05 / comparisons, the bound
            that Holm's adjustment sets its smallest p value.
        """
        share = 1 - (1 - CONFIDENCE) / 2 / max(comparisons, 1)
        deviation = math.sqrt(self.variance)
        if not sum(self.seeds):
            return float(special.ndtri(share) + special.ndtri(POWER)) * deviation
        generator = np.random.default_rng(0)
        freedoms = np.array(self.freedoms)
        draws = generator.chisquare(freedoms, (_DRAWS, len(freedoms))) / freedoms
        reach = _reach(np.array(self.seeds) * draws, self, share)
        error = deviation * generator.standard_normal(_DRAWS)
        return float(np.quantile(reach - error, POWER))


class Difference(NamedTuple):
    """How much two systems differ, first minus second, and how sure that is.

    Attributes:
      value: difference of the means over seeds.
      low, high: limits of the 95 % interval over the sources of noise that are known; else NaN.
      p: two-sided, over the same.
      seeds: of the system that has fewer.
      noise: what it may be off by.
    """

    value: float
    low: float
    high: float
    p: float
    seeds: int
    noise: Noise


class Estimate(NamedTuple):
    """A mean over seeds and its 95 % interval; limits are NaN where no noise is known."""

    value: float
    low: float
    high: float


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

    The interval adds the variances of the two sources, with Satterthwaite's degrees of freedom for
    what comes from the seeds. With one seed, its noise is unknown and left out.

    Args:
      first: a figure of each seed of one system, at least one.
      second: of the other's.
      first_samples: float64[seeds, R] from `bootstrap`, paired with `second_samples`.
      second_samples: the other's.

    Returns:
      The difference, first minus second.
    """
    a, b = summary(first), summary(second)
    value, samples = a.mean - b.mean, None
    if first_samples is not None and second_samples is not None:
        samples = first_samples.mean(axis=0) - second_samples.mean(axis=0)
    noise = _noise([a, b], samples)
    if value and noise.variance == 0 and "sentences" not in noise.sources:
        noise = Noise(None)  # a few equal figures say nothing of the noise
    reach, fewer = noise.reach(), min(a.count, b.count)
    return Difference(value, value - reach, value + reach, _p(value, noise), fewer, noise)


def estimate(figures: Sequence[float], samples: np.ndarray | None = None) -> Estimate:
    """Returns a system's mean over seeds and its 95 % interval.

    That of one run are the quantiles of the samples, which stay within what the figure can be; that
    of several is by the variances, as of `difference`.

    Args:
      figures: one a seed, at least one.
      samples: float64[seeds, R] from `bootstrap`.
    """
    of_seeds = summary(figures)
    if samples is not None and of_seeds.count == 1:
        limits = quantiles(samples[0])
        return Estimate(of_seeds.mean, *limits)
    noise = _noise([of_seeds], None if samples is None else samples.mean(axis=0))
    return Estimate(of_seeds.mean, of_seeds.mean - noise.reach(), of_seeds.mean + noise.reach())


def quantiles(samples: np.ndarray) -> tuple[float, float]:
    """Returns the limits that hold 95 % of the finite samples, float64[R]; NaN without one."""
    known = samples[np.isfinite(samples)]
    if not known.size:
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


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


def _noise(systems: Sequence[Summary], samples: np.ndarray | None) -> Noise:
    """Takes the noise from samples of the sentences, float64[R], and from several seeds."""
    sampled = None if samples is None else float(samples.var(ddof=1))
    if not all(system.count > 1 for system in systems):
        return Noise(sampled)
    parts = tuple(system.deviation**2 / system.count for system in systems)
    return Noise(sampled, parts, tuple(system.count - 1 for system in systems))


def _freedom(seeds: np.ndarray, noise: Noise) -> np.ndarray:
    """Returns the degrees of freedom of a noise, float64[...] (Satterthwaite 1946).

    The bootstrap's variance counts as known; the seeds' has the freedom of their number.

    Args:
      seeds: float64[..., systems], in place of `noise.seeds`.
      noise: the rest of it.
    """
    variance = (noise.sentences or 0.0) + seeds.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / (seeds**2 / np.array(noise.freedoms)).sum(axis=-1)
    return np.where(seeds.sum(axis=-1) > 0, freedom, np.inf)


def _reach(seeds: np.ndarray, noise: Noise, share: float) -> np.ndarray:
    """Returns how far an interval reaches to a side, float64[...].

    Args:
      seeds: as of `_freedom`.
      noise: as of `_freedom`.
      share: of the distribution, below the interval's upper end.
    """
    deviation = np.sqrt((noise.sentences or 0.0) + seeds.sum(axis=-1))
    return _quantile(share, _freedom(seeds, noise)) * deviation


def _p(value: float, noise: Noise) -> float:
    """Returns the two-sided p of Student's t for a difference of this noise."""
    variance = noise.variance
    if variance <= 0:
        return 1.0 if value == 0 else 0.0
    t, freedom = abs(value) / math.sqrt(variance), float(_freedom(np.array(noise.seeds), noise))
    return float(2 * (special.ndtr(-t) if math.isinf(freedom) else special.stdtr(freedom, -t)))


def _quantile(share: float, freedom: np.ndarray) -> np.ndarray:
    finite = np.where(np.isinf(freedom), 1.0, freedom)
    return np.where(np.isinf(freedom), special.ndtri(share), special.stdtrit(finite, share))
