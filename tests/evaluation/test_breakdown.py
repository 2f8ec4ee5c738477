import math

import numpy as np
import pytest

from bahdanau_jax.data.corpus import Example
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies, build
from bahdanau_jax.evaluation import breakdown, metrics
from bahdanau_jax.evaluation.alignment_measures import LinkCounts
from bahdanau_jax.evaluation.breakdown import SentenceSums

SOURCES = ["a b", "a b c", "c", "b b b b x", "a a a a a a", "x"]
REFERENCES = [
    ("the cat sat on the mat",),
    ("a dog ran across the road", "a dog crossed the road"),
    ("yes it does , it does",),
    ("nobody knows what that is",),
    ("it rains a lot here in autumn",),
    ("never say never again",),
]
TEXTS = [
    "the cat sat on a mat",
    "a dog crossed the road",
    "no",
    "nobody knows what it is",
    "it rains much here in autumn",
    "never say never again",
]
NONE = TokenStore.from_pairs([])
SPLIT = EvaluationSplit(
    "test",
    [Example(source, known) for source, known in zip(SOURCES, REFERENCES, strict=True)],
    NONE,
    NONE,
)
NLL, TOKENS = np.arange(1.0, 8), np.array([7, 7, 6, 7, 6, 8, 5])


def sums_of(kind="bleu"):
    return breakdown.split_sums(metrics.Scoring(kind), TEXTS, SPLIT, NLL, TOKENS)


def test_sums_over_all_sentences_give_the_figures_of_the_whole():
    sums, whole = sums_of(), metrics.figures(metrics.Scoring("bleu"), TEXTS, list(REFERENCES))
    for name in ("bleu", "chrf", "ter", "exact_match"):
        assert sums[name].figure() == pytest.approx(whole[name]), name
    rates, whole = (
        sums_of("error_rate"),
        metrics.figures(metrics.Scoring("error_rate"), TEXTS, list(REFERENCES)),
    )
    for name in ("per", "wer"):
        assert rates[name].figure() == pytest.approx(whole[name]), name
    mean = NLL.sum() / TOKENS.sum()
    assert sums["perplexity"].figure() == pytest.approx(math.exp(mean))


def test_a_part_has_the_figures_of_its_sentences_alone():
    for part in ([0, 2], [1], [3, 4, 5]):
        texts, known = [TEXTS[n] for n in part], [REFERENCES[n] for n in part]
        alone = metrics.figures(metrics.Scoring("bleu"), texts, known)
        for name in ("bleu", "chrf", "ter", "exact_match"):
            assert sums_of()[name].figure(part) == pytest.approx(alone[name], abs=1e-6), name
    # The second example has two references, hence two entries of the likelihood.
    assert sums_of()["perplexity"].figure([1]) == pytest.approx(math.exp((2 + 3) / (7 + 6)))


def test_counts_of_ter_are_those_of_its_rate():
    counts = metrics.ter_counts(TEXTS, REFERENCES)
    assert counts[0].tolist() == [1, 6]
    assert counts[1].tolist() == [0, 5.5]  # the mean of six and five words
    whole = metrics.text_scores(TEXTS, REFERENCES)["ter"].score
    assert 100 * counts[:, 0].sum() / counts[:, 1].sum() == pytest.approx(whole)


def test_an_interval_is_over_the_samples_in_which_the_figure_is_finite():
    def ratio(sums):
        with np.errstate(divide="ignore", invalid="ignore"):
            return sums[..., 0] / sums[..., 1]

    values = {"some": [[1, 0], [1, 1]], "never": [[1, 0], [2, 0]], "nothing": [[0, 0], [0, 0]]}
    sums = {name: SentenceSums(np.array(v, np.float64), ratio) for name, v in values.items()}
    found = breakdown.intervals(sums, 50)
    assert found["some"] == (1.0, 2.0)
    assert np.isnan(found["never"]).all() and np.isnan(found["nothing"]).all()


def test_buckets_take_both_limits_in_and_every_sentence_once():
    lengths = [1, 10, 11, 20, 21, 50, 10]
    seen = []

    def score(indices):
        seen.extend(indices)
        return float(sum(lengths[i] for i in indices))

    assert breakdown.bucketed(lengths, [10, 20, 21, 40], score) == [
        breakdown.LengthBucket(1, 10, 3, 21.0),
        breakdown.LengthBucket(11, 20, 2, 31.0),
        breakdown.LengthBucket(21, 21, 1, 21.0),
        breakdown.LengthBucket(41, None, 1, 50.0),
    ]
    assert sorted(seen) == list(range(len(lengths)))


@pytest.mark.parametrize("longest", [1, 3, 9, 17, 60, 100, 400])
def test_buckets_by_length_sum_to_the_whole(longest):
    lengths = np.random.default_rng(longest).integers(1, longest + 1, 200).tolist()
    values = np.ones((200, 2))
    values[:, 0] = lengths
    sums = {"mean": SentenceSums(values, lambda s: s[..., 0] / s[..., 1])}
    parts = breakdown.by_length(lengths, sums)
    assert sum(part.sentences for part in parts) == 200
    assert sum(p.sentences * p.figures["mean"] for p in parts) == pytest.approx(sum(lengths))
    assert len(parts) <= breakdown.BUCKETS + 1
    for part in parts:
        low, _, high = part.name.rstrip("+").partition("-")
        assert int(low) <= part.figures["mean"]
        if not part.name.endswith("+"):
            assert part.figures["mean"] <= int(high or low)


def test_a_curve_by_length_has_the_parts_figures_with_intervals_and_counts():
    chance = np.random.default_rng(3)
    lengths = chance.integers(1, 30, 300).tolist()
    wrong = [chance.random(300) < 0.3 for _ in range(2)]
    one, other = (
        SentenceSums(np.stack([w, np.ones(300)], axis=1).astype(float), metrics.percent)
        for w in wrong
    )
    alone, parts = (
        breakdown.length_curve(lengths, [one]),
        breakdown.by_length(lengths, {"wer": one}),
    )
    assert [(b.name, b.sentences, b.figure.value) for b in alone] == [
        (part.name, part.sentences, part.figures["wer"]) for part in parts
    ]
    for bucket in alone:
        assert 0 <= bucket.figure.low < bucket.figure.value < bucket.figure.high <= 100
        assert bucket.title == f"{bucket.name}\nn={bucket.sentences}"
    seeds = breakdown.length_curve(lengths, [one, other])
    for both, first in zip(seeds, alone, strict=True):
        second = other.figure([n for n, x in enumerate(lengths) if in_bucket(x, both.name)])
        assert both.figure.value == pytest.approx((first.figure.value + second) / 2)
        assert both.figure.low < both.figure.value < both.figure.high


def in_bucket(length, name):
    low, _, high = name.rstrip("+").partition("-")
    return int(low) <= length and (name.endswith("+") or length <= int(high or low))


def test_lengths_are_words_and_a_blank_source_has_one():
    vocabulary = build("words", 0, ["a b c"])
    assert breakdown.source_lengths(vocabulary, ["a bb  c", "", "  "]) == [3, 1, 1]
    characters = build("characters", 0, ["a b c"])
    assert breakdown.source_lengths(characters, ["abc", ""]) == [3, 1]


def test_limits_are_round():
    assert breakdown.length_limits([1, 2, 3, 4]) == [1, 2, 3]
    assert breakdown.length_limits(list(range(1, 61))) == [10, 20, 30, 40, 50]
    assert breakdown.length_limits([30] * 99 + [500]) == [5, 10, 15, 20, 25, 30]


def test_unknown_words_on_either_side_put_a_sentence_apart():
    source, target = build("words", 0, ["a b c"]), build("words", 0, [" ".join(TEXTS)])
    examples = [
        Example("a b", ("the cat",)),
        Example("a x", ("the cat",)),
        Example("a", ("the cat", "the lion")),
        Example("c", ("no", "a dog")),
    ]
    split = EvaluationSplit("test", examples, NONE, NONE)
    values = np.stack([[1.0, 2, 4, 8], np.ones(4)], axis=1)
    sums = {"sum": SentenceSums(values, lambda s: s[..., 0])}
    parts = breakdown.by_unknown_words(split, Vocabularies(source, target), sums)
    assert parts == [
        ("without unknown words", 2, {"sum": 9}),
        ("with unknown words", 2, {"sum": 6}),
    ]
    known = breakdown.by_unknown_words(
        split._replace(examples=examples[:1]), Vocabularies(source, target), sums
    )
    assert [part.name for part in known] == ["without unknown words"]


def test_intervals_are_those_of_the_closed_form():
    # Of a mean of N values, samples' means have the deviation of the values over root N.
    values = np.random.default_rng(1).normal(5, 2, 400)
    sums = {
        "mean": SentenceSums(
            np.stack([values, np.ones(400)], axis=1), lambda s: s[..., 0] / s[..., 1]
        )
    }
    low, high = breakdown.intervals(sums, 4000)["mean"]
    half = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)
    assert breakdown.intervals(sums, 50) == breakdown.intervals(sums, 50)


def test_figures_that_are_the_same_for_all_sentences_have_no_width():
    sums = {"same": SentenceSums(np.ones((20, 2)), lambda s: s[..., 0] / s[..., 1])}
    assert breakdown.intervals(sums, 100)["same"] == (1, 1)
    nothing = {"aer": breakdown.link_sums([LinkCounts()] * 3)}  # neither links nor gold ones
    assert np.isnan(breakdown.intervals(nothing, 10)["aer"]).all()


def test_links_of_pairs_sum_to_the_error_rate():
    counts = [LinkCounts(4, 3, 1, 3), LinkCounts(2, 2, 2, 2), LinkCounts(0, 1, 0, 0)]
    sums = breakdown.link_sums(counts)
    assert sums.figure() == pytest.approx((counts[0] + counts[1] + counts[2]).aer)
    assert sums.figure([1]) == 0
