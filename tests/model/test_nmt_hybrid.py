"""The preset of Luong et al. 2015, but for its window, beside nmt.hybrid's own recurrence."""

import jax.numpy as jnp
import nmt_hybrid
import pytest
from originals import assert_same_gradients, largest_difference, random_params

from bahdanau_jax.config import Config
from experiments import luong_2015

E, H = 3, 4
PARAMS = random_params(nmt_hybrid, E, H)


def small_preset() -> Config:
    """The preset with sizes at which every number is looked at, two layers, and no window."""
    config = luong_2015.get_config()
    model = config.model
    model.embedding = E
    model.encoder.units = model.decoder.units = model.attention.units = model.readout_units = H
    model.encoder.layers = model.decoder.layers = nmt_hybrid.LAYERS
    model.attention.window = "global"
    return config


def as_ours(p) -> dict:
    """nmt.hybrid's parameters in this project's layout, with biases of zero."""

    def cell(side, layer):
        i, f, o, a = jnp.split(jnp.asarray(p[f"W_{side}_{layer}"]).T, 4, axis=-1)
        kernel = jnp.concatenate([i, f, a, o], axis=-1)
        below = H if layer else E
        parts = {"W": kernel[:below], "U": kernel[-H:], "b": jnp.zeros(4 * H)}
        return parts | ({"C": kernel[below:-H]} if (side, layer) == ("tgt", 0) else {})

    layers = range(nmt_hybrid.LAYERS)
    attention_cell = {f"cell_{layer}": cell("tgt", layer) for layer in layers}
    return {
        "source_embedding": p["W_emb_src"].T,
        "target_embedding": p["W_emb_tgt"].T,
        "encoder": {f"forward_{layer}": cell("src", layer) for layer in layers},
        "decoder": {
            "attention_cell": {
                **attention_cell,
                "W_c": p["W_h"].T,
                "attention": {"score": {"W_a": p["W_a"].T}},
            }
        },
        "W_o": p["W_soft"].T,
        "b_w": jnp.zeros(len(p["W_soft"])),
    }


def test_the_preset_has_nmt_hybrids_probabilities_and_weights():
    assert largest_difference(nmt_hybrid, PARAMS, small_preset(), as_ours(PARAMS)) < 1e-5


def test_the_preset_has_nmt_hybrids_gradients():
    assert_same_gradients(nmt_hybrid, PARAMS, small_preset(), as_ours)


def with_another_initial_state(config, ours):
    config.model.initial_state = "zero"


def with_another_forget_bias(config, ours):
    config.model.forget_bias = 1


def without_feeding(config, ours):
    config.model.feeding = "none"
    del ours["decoder"]["attention_cell"]["cell_0"]["C"]


def without_reversal(config, ours):
    config.model.reverse_source = False


@pytest.mark.parametrize(
    "change",
    [with_another_initial_state, with_another_forget_bias, without_feeding, without_reversal],
)
def test_another_form_is_told_from_nmt_hybrid(change):
    config, ours = small_preset(), as_ours(PARAMS)
    change(config, ours)
    assert largest_difference(nmt_hybrid, PARAMS, config, ours) > 1e-2
