import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit
from flax_tree import apply, random_tree
from greedy import greedy
from numpy.typing import ArrayLike
from searched_models import MODELS

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.search.beam import Hypotheses
from bahdanau_jax.special_ids import BOS, EOS, PAD

VOCABULARY = 9
SOURCE = np.array(
    [[4, 5, 6, 7, 3, 2], [5, 4, 2, 0, 0, 0], [2, 0, 0, 0, 0, 0], [0] * 6, [7, 7, 6, 2, 0, 0]]
)
LIMITS = np.array([8, 2, 8, 8, 7])
LONGEST = 8
FILLER = 3  # the row without a source
models = pytest.mark.parametrize("name", MODELS)


class Case:
    """A model with generic parameters, and its search, compiled."""

    def __init__(self, name: str):
        fields = dict(MODELS[name])
        attention = AttentionConfig(**{"units": 6, "half_width": 1} | fields.pop("attention", {}))
        sizes = {"encoder": EncoderConfig(units=4), "decoder": DecoderConfig(units=5)}
        config = ModelConfig(
            **{"embedding": 3, "readout_units": 7, "attention": attention} | sizes | fields
        )
        self.model = Seq2Seq(config, VOCABULARY, VOCABULARY)
        self.params = random_tree(config, VOCABULARY, VOCABULARY, seed=3)
        self.params["b_w"][EOS] += 0.7  # so that some end by themselves
        self.compiled = quick_jit(
            lambda params, source, limits: greedy(self.model, params, source, limits, LONGEST)
        )
        self.forced = quick_jit(lambda p, s, t: self.model.apply({"params": p}, s, t))

    def __call__(self, source=SOURCE, limits=LIMITS, params=None) -> Hypotheses:
        return jax.device_get(self.compiled(params or self.params, source, limits))

    @functools.cached_property
    def found(self) -> Hypotheses:
        return self()


case = functools.cache(Case)


@models
def test_it_takes_the_likeliest_word_at_every_step(name: str) -> None:
    model, params = case(name).model, jax.tree.map(jnp.asarray, case(name).params)
    memory = apply(model, params, SOURCE, method="encode")
    state = apply(model, params, memory, method="initial_state")
    previous = np.full(len(SOURCE), BOS)
    tokens = np.zeros((len(SOURCE), LONGEST), int)
    ended = ~(SOURCE > 0).any(axis=1)
    for step in range(LONGEST):
        state, logits, _ = apply(model, params, state, previous, memory, method="decode_step")
        choices = np.array(logits)
        choices[:, [PAD, BOS]] = -np.inf
        previous = choices.argmax(axis=-1)
        ended = ended | (step >= LIMITS)
        tokens[~ended, step] = previous[~ended]
        ended = ended | (previous == EOS)
    np.testing.assert_array_equal(case(name).found.tokens, tokens)


def lengths(tokens: ArrayLike) -> np.ndarray:
    return (np.asarray(tokens) != PAD).sum(axis=1)


@models
def test_an_output_ends_with_the_end_mark_or_at_its_limit(name: str) -> None:
    tokens = case(name).found.tokens
    for row, (n, limit) in enumerate(zip(lengths(tokens), LIMITS, strict=True)):
        assert not tokens[row, n:].any() and np.all(tokens[row, :n] > BOS)
        assert EOS not in tokens[row, : n - 1]
        if row != FILLER:
            assert 0 < n <= limit and (n == limit or tokens[row, n - 1] == EOS)


def test_both_ends_occur_above() -> None:
    ends = [
        case(name).found.tokens[row, n - 1] == EOS
        for name in MODELS
        for row, n in enumerate(lengths(case(name).found.tokens))
        if row != FILLER
    ]
    assert 2 < sum(ends) < len(ends) - 2


@models
def test_the_score_is_the_teacher_forced_log_probability_of_the_same_tokens(name: str) -> None:
    found = case(name).found
    logits, alignments = case(name).forced(case(name).params, SOURCE, found.tokens)
    log_p = np.asarray(jax.nn.log_softmax(logits))
    chosen = np.take_along_axis(log_p, np.asarray(found.tokens)[:, :, None], axis=-1)[:, :, 0]
    real = found.tokens != PAD
    np.testing.assert_allclose(
        found.log_probability, chosen.sum(axis=1, where=real), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        found.alignments, np.where(real[:, :, None], alignments, 0), rtol=1e-4, atol=1e-5
    )


@models
def test_a_sentence_is_translated_alone_as_in_any_batch_and_with_any_padding(name: str) -> None:
    found = case(name).found
    for row in range(len(SOURCE)):
        source = np.pad(SOURCE[row : row + 1], ((0, 2), (0, 3)))  # two filler rows
        alone = case(name)(source, np.pad(LIMITS[row : row + 1], (0, 2)))
        np.testing.assert_array_equal(alone.tokens[0], found.tokens[row])
        np.testing.assert_allclose(
            alone.log_probability[0], found.log_probability[row], rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(
            alone.alignments[0, :, : SOURCE.shape[1]], found.alignments[row], atol=1e-6
        )


@models
def test_a_filler_row_and_a_limit_of_zero_yield_nothing(name: str) -> None:
    found = case(name).found
    limits = LIMITS * (np.arange(len(LIMITS)) != 0)
    without = case(name)(limits=limits)
    for hypotheses, row in ((found, FILLER), (without, FILLER), (without, 0)):
        assert not hypotheses.tokens[row].any() and not hypotheses.alignments[row].any()
        assert hypotheses.log_probability[row] == 0
    np.testing.assert_array_equal(without.tokens[1:], found.tokens[1:])


@models
def test_pad_and_bos_are_never_chosen_but_keep_their_probability(name: str) -> None:
    likely = dict(case(name).params)
    likely["b_w"] = likely["b_w"] + np.array([30, 20, *[0] * (VOCABULARY - 2)], np.float32)
    found = case(name)(params=likely)
    assert not np.isin(found.tokens, BOS).any()
    assert np.all(lengths(found.tokens)[:FILLER] > 0)
    per_word = found.log_probability[:FILLER] / lengths(found.tokens)[:FILLER]
    assert np.all(per_word < -20)  # probabilities are over all words


@models
def test_a_longer_limit_goes_on_where_a_shorter_one_stopped(name: str) -> None:
    found = case(name).found
    shorter = case(name)(limits=np.minimum(LIMITS, 3))
    np.testing.assert_array_equal(shorter.tokens[:, :3], found.tokens[:, :3])
    assert not shorter.tokens[:, 3:].any()


def test_it_searches_in_the_precision_of_the_parameters() -> None:
    made = case("rnnsearch")
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float64), made.params)
        found = made(params=params)
    assert found.log_probability.dtype == found.alignments.dtype == np.float64
    np.testing.assert_array_equal(found.tokens, made.found.tokens)
    np.testing.assert_allclose(found.log_probability, made.found.log_probability, rtol=1e-5)
