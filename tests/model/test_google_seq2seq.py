"""The preset of Britz et al. 2017 beside google/seq2seq's own recurrence."""

import google_seq2seq
import jax.numpy as jnp
import pytest
from originals import assert_same_gradients, largest_difference, random_params

from bahdanau_jax.config import Config
from experiments import britz_grid

E, H, A = 3, 4, 5
SCORES = {"bahdanau": "additive", "dot": "projected"}


def original_params(score: str) -> dict:
    return random_params(google_seq2seq, E, H, A, score)


def small_preset(score: str) -> Config:
    """The preset with sizes at which every number is looked at."""
    config = britz_grid.get_config()
    model = config.model
    model.embedding = E
    model.encoder.units = model.decoder.units = model.readout_units = H
    model.attention.units = A
    model.attention.score = SCORES[score]
    return config


def as_ours(p) -> dict:
    """google/seq2seq's parameters in this project's layout."""

    def gates(array):  # input, proposal, forget, output; here the forget gate is the second
        i, j, f, o = jnp.split(jnp.asarray(array), 4, axis=-1)
        return jnp.concatenate([i, f, j, o], axis=-1)

    def cell(name):
        kernel = gates(p[f"{name}_kernel"])
        parts = {"W": kernel[:E], "U": kernel[-H:], "b": gates(p[f"{name}_bias"])}
        return parts | ({"C": kernel[E:-H]} if name == "decoder" else {})

    score = {"W_a": p["att_query"], "U_a": p["att_keys"], "b": jnp.asarray(p["att_query_b"])}
    if "v_att" in p:  # inside a tanh the two biases are one; in a product the keys' has no effect
        score |= {"v_a": p["v_att"], "b": score["b"] + p["att_keys_b"]}
    return {
        "source_embedding": p["source_W"],
        "target_embedding": p["target_W"],
        "encoder": {"forward_0": cell("fw"), "backward_0": cell("bw")},
        "decoder": {"attention_cell": {"cell_0": cell("decoder"), "attention": {"score": score}}},
        "readout": {
            "U_o": p["attention_mix"][:H],
            "C_o": p["attention_mix"][H:],
            "b_o": p["attention_mix_b"],
        },
        "W_o": p["logits"],
        "b_w": p["logits_b"],
    }


@pytest.mark.parametrize("score", SCORES)
def test_the_preset_has_google_seq2seqs_probabilities_and_weights(score):
    params = original_params(score)
    config, ours = small_preset(score), as_ours(params)
    assert largest_difference(google_seq2seq, params, config, ours) < 1e-5


@pytest.mark.parametrize("score", SCORES)
def test_the_preset_has_google_seq2seqs_gradients(score):
    assert_same_gradients(google_seq2seq, original_params(score), small_preset(score), as_ours)


def with_another_forget_bias(config, ours):
    config.model.forget_bias = 0


def without_attentions_bias(config, ours):
    config.model.attention.bias = False
    del ours["decoder"]["attention_cell"]["attention"]["score"]["b"]


def without_feeding(config, ours):
    config.model.feeding = "none"
    del ours["decoder"]["attention_cell"]["cell_0"]["C"]


def without_the_context_in_the_readout(config, ours):
    config.model.readout_parts = "state"
    del ours["readout"]["C_o"]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    "change",
    [
        with_another_forget_bias,
        without_attentions_bias,
        without_feeding,
        without_the_context_in_the_readout,
    ],
)
def test_another_form_is_told_from_google_seq2seq(change, score):
    params = original_params(score)
    config, ours = small_preset(score), as_ours(params)
    change(config, ours)
    assert largest_difference(google_seq2seq, params, config, ours) > 1e-2
