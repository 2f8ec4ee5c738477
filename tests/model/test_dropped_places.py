"""Dropout of words, between layers and of states, against the oracle.

A factor m on what a matrix reads is the same as a matrix of other rows, (x ∘ m) W = x (diag(m) W).
So the oracle, which knows no dropout, gets each sentence's own matrices.
"""

import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import random_tree, to_oracle

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from bahdanau_jax.model.dropout import (
    Noise,
    Place,
    Rates,
    dropout,
    example_seeds,
    state_factors,
    varying_rate,
    word_dropout,
)
from bahdanau_jax.model.seq2seq import Seq2Seq

SOURCE_SIZE, TARGET_SIZE, UNITS, EMBEDDING = 9, 10, 5, 4
SOURCE = np.array([[4, 5, 6, 7, 3, 2], [5, 4, 2, 0, 0, 0]])  # no word twice in a sentence
TARGET = np.array([[6, 4, 7, 5, 2], [5, 8, 2, 0, 0]])
FORMS = {
    "paper": ModelConfig(attention=AttentionConfig(units=6, query="previous")),
    "conditional": ModelConfig(
        gru_reset="after", attention=AttentionConfig(units=6, query="intermediate")
    ),
    "stacked": ModelConfig(
        cell="lstm",
        residual=True,
        attention=AttentionConfig(units=6, query="current"),
        encoder=EncoderConfig(layers=3),
        decoder=DecoderConfig(layers=3),
    ),
    "stacked, one direction": ModelConfig(
        initial_state="final",
        attention=AttentionConfig(units=6, query="previous"),
        encoder=EncoderConfig(layers=2, bidirectional=False),
        decoder=DecoderConfig(layers=2),
    ),
}
for made in FORMS.values():
    made.embedding, made.readout_units = EMBEDDING, 7
    made.encoder.units = made.decoder.units = UNITS


def noise(rates: Rates, rows=(0, 1)) -> Noise:
    return Noise(example_seeds(jax.random.key(3), jnp.asarray(7), jnp.asarray(rows)), rates)


def factors(
    made: Noise, rate, place: int, steps: int, size: int, whole: bool = False
) -> np.ndarray:
    """Returns float64[steps, B, size]."""
    ones = jnp.ones((steps, len(made.seeds), size))
    return np.asarray((word_dropout if whole else dropout)(ones, rate, made, place), np.float64)


def expected_logits(params: dict, config: ModelConfig, made: Noise) -> np.ndarray:
    """Returns the oracle's logits of real positions, each sentence by its own matrices."""
    rates, layers = made.rates, config.encoder.layers

    def states(place: int) -> np.ndarray:
        kept = state_factors(UNITS, rates.states, made, place)
        return np.ones((len(SOURCE), UNITS)) if kept is None else np.asarray(kept, np.float64)

    words = factors(made, rates.source_words, Place.SOURCE_WORDS, 6, EMBEDDING, whole=True)
    read = factors(made, rates.target_words, Place.TARGET_WORDS, 5, EMBEDDING, whole=True)
    read[0] = 1.0  # the begin mark
    into = [
        factors(made, rates.layers, Place.ENCODER_LAYERS.of_layer(k), 6, config.annotation_units)
        for k in range(layers)
    ]
    above = [
        factors(made, rates.layers, Place.DECODER_LAYERS.of_layer(k), 5, UNITS)
        for k in range(config.decoder.layers)
    ]
    logits = []
    for row in range(len(SOURCE)):
        mine = copy.deepcopy(params)
        places = (("forward", Place.FORWARD_STATES), ("backward", Place.BACKWARD_STATES))
        for layer in range(layers):
            for name, place in places[: 1 + config.encoder.bidirectional]:
                cell = mine["encoder"][f"{name}_{layer}"]
                cell["U"] = states(place.of_layer(layer))[row][:, None] * cell["U"]
        cells = mine["decoder"]["cell"]
        for layer in range(config.decoder.layers):
            kept = states(Place.DECODER_STATES.of_layer(layer))[row]
            cells[f"cell_{layer}"]["U"] = kept[:, None] * cells[f"cell_{layer}"]["U"]
        if "transition_0" in cells:
            kept = states(Place.TRANSITION_STATES)[row]
            cells["transition_0"]["U"] = kept[:, None] * cells["transition_0"]["U"]
        n = int((SOURCE[row] > 0).sum())
        output = np.array([mine["source_embedding"][token] for token in SOURCE[row, :n]])
        output = output * words[:n, row]
        for layer in range(layers):
            below = output
            given = below if layer == 0 else below * into[layer][:n, row]
            output, _ = reference.recur(mine["encoder"][f"forward_{layer}"], config, given)
            if config.encoder.bidirectional:
                back, _ = reference.recur(mine["encoder"][f"backward_{layer}"], config, given[::-1])
                output = np.concatenate([output, back[::-1]], axis=1)
            if config.residual and layer > 0:
                output = output + below
        state = reference.initial_state(mine, config, output)
        for i in range(int((TARGET[row] > 0).sum())):
            token = 1 if i == 0 else int(TARGET[row, i - 1])
            step = copy.deepcopy(mine)
            step["target_embedding"][token] = step["target_embedding"][token] * read[i, row]
            for layer in range(1, config.decoder.layers):
                cell = step["decoder"]["cell"][f"cell_{layer}"]
                cell["W"] = above[layer][i, row][:, None] * cell["W"]
            state, of_step, *_ = reference.decoder_step(step, config, state, token, output, i)
            logits.append(of_step)
    return np.array(logits)


def logits(params: dict, config: ModelConfig, made: Noise | None) -> np.ndarray:
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    found = quick_jit(lambda p: model.apply({"params": p}, SOURCE, TARGET, made)[0])(params)
    return np.asarray(found)[TARGET > 0]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("place", ["source_words", "target_words", "layers", "states"])
def test_the_logits_are_the_oracles_under_the_same_masks(name: str, place: str) -> None:
    config = FORMS[name]
    params = random_tree(config, SOURCE_SIZE, TARGET_SIZE)
    made = noise(Rates(**{place: 0.4}))
    ours = logits(params, config, made)
    expected = expected_logits(reference.float64(to_oracle(params)), config, made)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    alone = place == "layers" and config.encoder.layers == 1
    assert alone == np.allclose(ours, logits(params, config, None), atol=1e-3)


@pytest.mark.parametrize("name", FORMS)
def test_a_rate_of_replicas_makes_the_same_masks(name: str) -> None:
    config = FORMS[name]
    params = random_tree(config, SOURCE_SIZE, TARGET_SIZE)
    rates = {"source_words": 0.3, "target_words": 0.2, "layers": 0.4, "states": 0.5}
    varying = Rates(**{place: varying_rate(rate) for place, rate in rates.items()})
    expected = logits(params, config, noise(Rates(**rates)))
    np.testing.assert_allclose(logits(params, config, noise(varying)), expected, atol=1e-5)


def test_words_are_dropped_whole_and_position_by_position() -> None:
    made = noise(Rates(), range(50))
    kept = np.asarray(word_dropout(jnp.ones((40, 50, 8)), 0.25, made, Place.SOURCE_WORDS))
    assert (kept == kept[:, :, :1]).all()
    np.testing.assert_allclose(np.unique(kept), [0, 1 / 0.75])
    assert abs((kept[:, :, 0] > 0).mean() - 0.75) < 4.5 * np.sqrt(0.25 * 0.75 / 2000)
    longer = word_dropout(jnp.ones((47, 50, 8)), 0.25, made, Place.SOURCE_WORDS)
    np.testing.assert_array_equal(longer[:40], kept)  # more padding changes no mask


def test_states_have_one_mask_a_sentence_whoever_holds_it() -> None:
    made = noise(Rates(), range(40))
    kept = state_factors(50, 0.25, made, Place.FORWARD_STATES)
    assert kept is not None and kept.shape == (40, 50)
    np.testing.assert_allclose(np.unique(kept), [0, 1 / 0.75])
    assert abs((np.asarray(kept) > 0).mean() - 0.75) < 4.5 * np.sqrt(0.25 * 0.75 / 2000)
    part = state_factors(50, 0.25, noise(Rates(), range(20, 40)), Place.FORWARD_STATES)
    np.testing.assert_array_equal(part, kept[20:])
    other = state_factors(50, 0.25, made, Place.FORWARD_STATES.of_layer(1))
    assert (np.asarray(other) != np.asarray(kept)).any()
    assert state_factors(50, 0.0, made, Place.FORWARD_STATES) is None


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "stacked" else pytest.mark.slow) for name in FORMS],
)
@pytest.mark.parametrize("place", Rates._fields)
def test_the_gradient_under_fixed_masks_equals_central_differences(name: str, place: str) -> None:
    """Along a direction that moves every parameter: what was dropped must be dropped backwards."""
    config, step = FORMS[name], 1e-5
    with jax.enable_x64(True):
        model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
        params = jax.tree.map(np.float64, random_tree(config, SOURCE_SIZE, TARGET_SIZE))
        direction = jax.tree.map(np.float64, random_tree(config, SOURCE_SIZE, TARGET_SIZE, seed=1))
        made = noise(Rates(**{place: 0.4}))

        def loss(params: dict) -> jax.Array:
            sides = SOURCE, TARGET
            sums: Any = model.apply({"params": params}, *sides, made, 0.1, method="loss_sums")
            return sums.loss

        def moved(by: float) -> dict:
            return jax.tree.map(lambda x, d: x + by * d, params, direction)

        both = quick_jit(jax.value_and_grad(loss))
        _, gradient = both(params)
        along = sum(
            (g * d).sum()
            for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(direction), strict=True)
        )
        measured = (both(moved(step))[0] - both(moved(-step))[0]) / (2 * step)
        np.testing.assert_allclose(along, measured, rtol=1e-6)
