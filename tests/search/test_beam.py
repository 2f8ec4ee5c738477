import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import search_oracle
from compiling import quick_jit
from flax_tree import random_tree
from greedy import greedy
from search_oracle import Asked
from searched_models import MODELS

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import (
    AttentionConfig,
    DecodeConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
)
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.search.beam import Hypotheses, Sentences, search
from bahdanau_jax.special_ids import EOS, PAD, UNK

SIZE = 6  # PAD, BOS, EOS, UNK and two words: an output can be one of 121
LONGEST = 4
EVERY = 128  # a beam that holds every output there is
SOURCE = np.array(
    [[4, 5, 5, 4, 2, 0], [5, 4, 2, 0, 0, 0], [4, 4, 5, 3, 5, 2], [5, 2, 0, 0, 0, 0], [0] * 6]
)
ASKED = [Asked(4), Asked(4, prefix=(5, 3)), Asked(4, minimum=2), Asked(2), Asked(4)]
FILLER = 4  # the row without a source
PREFIX_WIDTH = 2
PENALTIES: dict[str, dict[str, float]] = {
    "none": {},
    "average": {},
    "gnmt": {"length_penalty_alpha": 0.8},
    "none-coverage": {"coverage_penalty": 0.4},
    "average-coverage": {"coverage_penalty": 0.2},
    "gnmt-coverage": {"coverage_penalty": 0.6, "length_penalty_alpha": 1.3},
}
models = pytest.mark.parametrize("name", MODELS)


def decoding(penalty: str, **fields) -> DecodeConfig:
    values: dict[str, Any] = PENALTIES[penalty] | fields
    return DecodeConfig(length_penalty=penalty.partition("-")[0], **values)


class Case:
    """A model with generic parameters, and what it says of every output."""

    def __init__(self, name: str, seed: int = 3):
        fields = dict(MODELS[name])
        attention = AttentionConfig(**{"units": 6, "half_width": 1} | fields.pop("attention", {}))
        sizes = {"encoder": EncoderConfig(units=4), "decoder": DecoderConfig(units=5)}
        config = ModelConfig(
            **{"embedding": 3, "readout_units": 7, "attention": attention} | sizes | fields
        )
        self.model = Seq2Seq(config, SIZE, SIZE)
        self.params = random_tree(config, SIZE, SIZE, seed=seed)
        self.forced = quick_jit(self._forced)

    def _forced(self, params, source, target):
        logits, alignments = self.model.apply({"params": params}, source, target)
        return jax.nn.log_softmax(logits), alignments

    def predict(self, source, target):
        return [np.asarray(x) for x in self.forced(self.params, source, target)]

    @functools.cached_property
    def tables(self) -> list[search_oracle.Table]:
        return search_oracle.tables(self.predict, SOURCE[:FILLER], SIZE, LONGEST)

    def search(self, config: DecodeConfig, nbest: int = 1, members: int = 0):
        """Returns the compiled search, of parameters and sentences."""

        def found(params, sentences):
            return search(
                self.model,
                params,
                sentences,
                config,
                longest=LONGEST,
                nbest=nbest,
                members=members,
            )

        compiled = quick_jit(found)
        return lambda params, sentences: jax.tree.map(np.asarray, compiled(params, sentences))


case = functools.cache(Case)


def sentences(source=SOURCE, asked=None, number=None) -> Sentences:
    asked = asked or ASKED
    prefix = np.zeros((len(source), PREFIX_WIDTH), np.int32)
    for row, one in enumerate(asked):
        prefix[row, : len(one.prefix)] = one.prefix
    limits, minimum = (np.array([getattr(a, f) for a in asked]) for f in ("limit", "minimum"))
    named = np.arange(len(source)) if number is None else number
    return Sentences(*map(jnp.int32, (source, limits, minimum, prefix, named)))


def outputs(found: Hypotheses, row: int) -> list[tuple[tuple[int, ...], float, float]]:
    """Returns the (tokens, log-probability, score) of a sentence's hypotheses."""
    made = []
    for place in range(found.tokens.shape[1]):
        tokens = found.tokens[row, place]
        tokens = tuple(tokens[tokens != PAD].tolist())
        if found.score[row, place] > -np.inf:
            made.append((tokens, found.log_probability[row, place], found.score[row, place]))
    return made


def check_same(found: Hypotheses, oracle, config: DecodeConfig, count: int) -> None:
    for row, (table, asked) in enumerate(zip(case("rnnsearch").tables, ASKED, strict=False)):
        expected = oracle(table, asked, config)[:count]
        made = outputs(found, row)
        assert [each[0] for each in made] == [h.tokens for h in expected]
        np.testing.assert_allclose([m[1] for m in made], [h.log_p for h in expected], rtol=1e-4)
        np.testing.assert_allclose([m[2] for m in made], [h.score for h in expected], rtol=1e-4)
    assert outputs(found, FILLER) == []


@pytest.mark.parametrize(
    ("penalty", "suppress_unk"),
    [*((penalty, False) for penalty in PENALTIES), ("none", True), ("gnmt-coverage", True)],
)
def test_a_beam_that_holds_everything_finds_the_best_there_is(penalty, suppress_unk):
    made, config = case("rnnsearch"), decoding(penalty, beam_size=EVERY, suppress_unk=suppress_unk)
    found = made.search(config, nbest=5)(made.params, sentences())
    check_same(found, search_oracle.exhaustive, config, 5)


@pytest.mark.parametrize(
    ("penalty", "size", "nbest"),
    [
        (penalty, *sizes)
        for number, penalty in enumerate(PENALTIES)
        for sizes in [[(2, 1), (3, 3), (5, 2)][number % 3]]
    ],
)
def test_a_smaller_beam_finds_what_a_plain_one_that_never_stops_early_finds(penalty, size, nbest):
    made, config = case("rnnsearch"), decoding(penalty, beam_size=size)
    found = made.search(config, nbest)(made.params, sentences())
    check_same(found, search_oracle.beam_search, config, nbest)


def test_every_penalty_is_compared_and_changes_what_is_best():
    assert {penalty.partition("-")[0] for penalty in PENALTIES} == set(
        CHOICES["decode.length_penalty"]
    )
    best = {
        tuple(
            search_oracle.exhaustive(table, asked, decoding(penalty))[0].tokens
            for table, asked in zip(case("rnnsearch").tables, ASKED, strict=False)
        )
        for penalty in PENALTIES
    }
    assert len(best) > 2


@models
def test_a_beam_of_one_is_greedy_search(name):
    made = case(name)
    plain = [Asked(a.limit) for a in ASKED]
    for penalty in ("none", "average"):
        config = decoding(penalty, beam_size=1)
        found = made.search(config)(made.params, sentences(asked=plain))
        limits = jnp.int32([a.limit for a in plain])
        taken = quick_jit(lambda p, s, n: greedy(made.model, p, s, n, LONGEST))(
            made.params, jnp.int32(SOURCE), limits
        )
        np.testing.assert_array_equal(found.tokens[:, 0], taken.tokens)
        for row, table in enumerate(made.tables):
            tokens = ()
            while len(tokens) < plain[row].limit and EOS not in tokens:
                choices = search_oracle.candidates(table, plain[row], config, tokens)
                tokens += (max(choices, key=lambda word: table.log_p[tokens][word]),)
            assert outputs(found, row)[0][0] == tokens


@functools.cache
def found_by(name: str) -> Hypotheses:
    made = case(name)
    return made.search(CONFIG, nbest=3)(made.params, sentences())


CONFIG = decoding("gnmt-coverage", beam_size=3)


@models
def test_probabilities_and_alignments_are_those_of_the_same_target_when_forced(name):
    made, found = case(name), found_by(name)
    for place in range(3):
        tokens = np.asarray(found.tokens[:, place])
        log_p, alignments = made.predict(SOURCE, np.where(tokens == PAD, EOS, tokens))
        chosen = np.take_along_axis(log_p, tokens[:, :, None], axis=-1)[:, :, 0]
        real = tokens != PAD
        np.testing.assert_allclose(
            found.log_probability[:, place], chosen.sum(axis=1, where=real), atol=1e-4
        )
        np.testing.assert_allclose(
            found.alignments[:, place], np.where(real[:, :, None], alignments, 0), atol=1e-5
        )
    ends = [len(each[0]) for row in range(FILLER) for each in outputs(found, row)]
    assert len(ends) > 8 and len(set(ends)) > 1


@models
def test_a_sentence_has_the_same_outputs_alone_in_any_order_and_with_any_padding(name):
    made, together = case(name), found_by(name)
    compiled = made.search(CONFIG, nbest=3)
    order = [2, 4, 1, 0, 3]
    shuffled = compiled(made.params, sentences(SOURCE[order], [ASKED[row] for row in order]))
    for place, row in enumerate(order):
        np.testing.assert_array_equal(shuffled.tokens[place], together.tokens[row])
        np.testing.assert_allclose(shuffled.score[place], together.score[row], rtol=1e-5)
    for row in range(len(SOURCE)):
        source = np.pad(SOURCE[row : row + 1], ((0, 1), (0, 3)))
        alone = compiled(made.params, sentences(source, [ASKED[row], Asked(4)]))
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
        np.testing.assert_allclose(alone.score[0], together.score[row], rtol=1e-5)
        np.testing.assert_allclose(
            alone.alignments[0, :, :, : SOURCE.shape[1]], together.alignments[row], atol=1e-6
        )


def test_what_has_ended_leaves_a_large_batch_and_nothing_changes():
    made, few = case("rnnsearch"), len(SOURCE)
    compiled = made.search(CONFIG, nbest=3)
    one_by_one = compiled(made.params, sentences())
    copies = 5
    rows = np.random.default_rng(0).permutation(np.tile(np.arange(few), copies))
    together = compiled(made.params, sentences(SOURCE[rows], [ASKED[row] for row in rows]))
    assert 3 * len(rows) >= 64  # as many as it takes for rows to be packed
    for place, row in enumerate(rows):
        np.testing.assert_array_equal(together.tokens[place], one_by_one.tokens[row])
        np.testing.assert_allclose(together.score[place], one_by_one.score[row], rtol=1e-5)
        np.testing.assert_allclose(
            together.alignments[place], one_by_one.alignments[row], atol=1e-6
        )


def test_the_search_stops_early_only_where_nothing_is_missed():
    """With more steps at hand than any output needs, the loop ends long before them."""
    made, steps = case("rnnsearch"), []
    likely = dict(made.params, b_w=made.params["b_w"] + np.array([0, 0, 4, 0, 0, 0], np.float32))
    config = decoding("none", beam_size=3)
    model: Any = _Counting(made.model, steps)
    asked = sentences(asked=[Asked(40)] * len(SOURCE))
    found = jax.jit(lambda p, s: search(model, p, s, config, longest=40))(likely, asked)
    jax.block_until_ready(found)
    jax.effects_barrier()
    assert 0 < len(steps) < 12


class _Counting:
    """A model that notes each step of decoding as it happens."""

    def __init__(self, model, steps):
        self._model, self._steps, self.config = model, steps, model.config

    def bind(self, variables):
        return self._model.bind(variables)

    def apply(self, variables, state, previous, memory, method):
        jax.debug.callback(lambda _: self._steps.append(1), state.step)
        return self._model.apply(variables, state, previous, memory, method=method)


def test_an_ensembles_probability_is_the_mean_of_its_members():
    first, second = case("rnnsearch"), Case("rnnsearch", seed=8)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), first.params, second.params)
    config = decoding("average", beam_size=3)
    found = first.search(config, nbest=2, members=2)(stacked, sentences())

    def predict(source, target):
        pairs = zip(first.predict(source, target), second.predict(source, target), strict=True)
        (p, q), (a, b) = pairs
        return np.log((np.exp(p) + np.exp(q)) / 2), (a + b) / 2

    tables = search_oracle.tables(predict, SOURCE[:FILLER], SIZE, LONGEST)
    for row, (table, asked) in enumerate(zip(tables, ASKED, strict=False)):
        expected = search_oracle.beam_search(table, asked, config)[:2]
        assert [each[0] for each in outputs(found, row)] == [h.tokens for h in expected]
        for place, h in enumerate(expected):
            assert found.score[row, place] == pytest.approx(h.score, rel=1e-4)
            rows = np.stack([table.alignment[h.tokens[:i]] for i in range(len(h.tokens))])
            np.testing.assert_allclose(found.alignments[row, place, : len(rows)], rows, atol=1e-5)


SAMPLES = 600


@functools.cache
def sampled(temperature: float, seed: int = 0):
    made = case("rnnsearch")
    config = DecodeConfig(temperature=temperature, seed=seed, length_penalty="none")
    return made.search(config, nbest=SAMPLES)


def test_samples_are_as_frequent_as_they_are_probable():
    made = case("rnnsearch")
    asked = [Asked(1)] * len(SOURCE)
    found = sampled(0.7)(made.params, sentences(asked=asked))
    for row, table in enumerate(made.tables):
        drawn = [tokens[0] for tokens, _, _ in outputs(found, row)]
        weights = np.exp(table.log_p[()] / 0.7)
        weights[:EOS] = 0  # PAD and BOS
        p = weights / weights.sum()
        shares = np.bincount(drawn, minlength=SIZE) / SAMPLES
        assert len(drawn) == SAMPLES
        assert np.all(np.abs(shares - p) <= 4 * np.sqrt(p * (1 - p) / SAMPLES))


def test_samples_have_the_models_probability_and_come_by_score():
    made = case("rnnsearch")
    found = sampled(0.7)(made.params, sentences())
    for row, (table, asked) in enumerate(zip(made.tables, ASKED, strict=False)):
        drawn = outputs(found, row)
        assert len({tokens for tokens, _, _ in drawn}) > 3
        for tokens, log_p, _ in drawn[::40]:
            steps = range(len(tokens))
            assert log_p == pytest.approx(
                sum(table.log_p[tokens[:i]][tokens[i]] for i in steps), abs=1e-4
            )
            assert tokens[: len(asked.prefix)] == asked.prefix
            assert EOS not in tokens[: asked.minimum] and len(tokens) <= asked.limit
        ended = [score for tokens, _, score in drawn if tokens[-1] == EOS]
        assert ended == sorted(ended, reverse=True)


def test_a_sentence_has_the_same_samples_whatever_the_batch_and_others_with_another_seed():
    made = case("rnnsearch")
    together = sampled(0.7)(made.params, sentences())
    order = [3, 1, 4, 0, 2]
    shuffled = sampled(0.7)(
        made.params, sentences(SOURCE[order], [ASKED[row] for row in order], np.array(order))
    )
    for place, row in enumerate(order):
        np.testing.assert_array_equal(shuffled.tokens[place], together.tokens[row])
    renamed = sampled(0.7)(made.params, sentences(number=np.arange(len(SOURCE)) + 1))
    other = sampled(0.7, seed=1)(made.params, sentences())
    assert (renamed.tokens != together.tokens).any()
    assert (other.tokens != together.tokens).any()


def test_a_low_temperature_is_greedy():
    made = case("rnnsearch")
    found = made.search(DecodeConfig(temperature=1e-4), nbest=1)(made.params, sentences())
    taken = made.search(DecodeConfig(beam_size=1))(made.params, sentences())
    np.testing.assert_array_equal(found.tokens, taken.tokens)


def test_the_unknown_word_is_never_chosen_where_it_is_suppressed():
    made = case("rnnsearch")
    likely = dict(made.params, b_w=made.params["b_w"] + np.array([0, 0, 0, 3, 0, 0], np.float32))
    asked = sentences(asked=[Asked(4)] * len(SOURCE))
    for config in (DecodeConfig(beam_size=3), DecodeConfig(beam_size=3, suppress_unk=True)):
        found = made.search(config, nbest=3)(likely, asked)
        assert np.isin(found.tokens, UNK).any() != config.suppress_unk


def test_parameters_that_are_no_numbers_yield_nothing_and_an_end():
    made = case("rnnsearch")
    broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), made.params)
    found = made.search(dataclasses.replace(CONFIG), nbest=3)(broken, sentences())
    assert not np.any(found.tokens) and np.all(found.score == -np.inf)
