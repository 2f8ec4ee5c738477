"""The preset of LIUM's conditional GRU beside nmtpy's own recurrence."""

import jax.numpy as jnp
import nmtpy
import pytest
from originals import assert_same_gradients, largest_difference, random_params

from bahdanau_jax.config import Config
from bahdanau_jax.special_ids import BOS
from experiments import lium_multi30k

E, H = 3, 4
PARAMS = random_params(nmtpy, E, H)


def small_preset() -> Config:
    """The preset with sizes at which every number is looked at."""
    config = lium_multi30k.get_config()
    model = config.model
    model.embedding = model.readout_units = E
    model.encoder.units = model.decoder.units = H
    model.attention.units = 2 * H
    return config


def as_ours(p) -> dict:
    """nmtpy's parameters in this project's layout: 1 - u is the update gate, so its sign turns."""

    def joined(gates, proposal):  # reset, update, proposal
        reset, update = jnp.split(jnp.asarray(gates), 2, axis=-1)
        return jnp.concatenate([reset, -update, jnp.asarray(proposal)], axis=-1)

    def direction(name):
        b, s = ({k: jnp.asarray(p[f"{name}_{kind}{k}"]) for k in (1, 2, 3, 4)} for kind in "bs")
        # A negative gain and a negative bias turn the sign; the weights keep theirs.
        W, U = (jnp.concatenate([p[f"{name}_{m}"], p[f"{name}_{m}x"]], axis=1) for m in "WU")
        return {
            "W": W,
            "U": U,
            "gain_W": joined(s[1], s[2]),
            "gain_U": joined(s[3], s[4]),
            "b": joined(b[1] + b[3], b[2]),
            "b_u": b[4],
        }

    transition = {
        "W": joined(p["decoder_W"], p["decoder_Wx"]),
        "U": joined(p["decoder_U"], p["decoder_Ux"]),
        "b": joined(p["decoder_b"], p["decoder_bx"]),
        "b_u": jnp.zeros(H),
    }
    cell = {
        "W": joined(p["decoder_Wc"], p["decoder_Wcx"]),
        "U": joined(p["decoder_U_nl"], p["decoder_Ux_nl"]),
        "b": joined(p["decoder_b_nl"], jnp.zeros(H)),
        "b_u": p["decoder_bx_nl"],
    }
    score = {
        "W_a": p["W_comb_att"],
        "U_a": p["Wc_att"],
        "b": p["b_att"],
        "v_a": p["U_att"][:, 0],
    }
    return {
        "source_embedding": p["src_emb"],
        "target_embedding": jnp.asarray(p["trg_emb"]).at[BOS].set(0.0),
        "encoder": {"forward_0": direction("encoder"), "backward_0": direction("encoder_r")},
        "decoder": {
            "W_s_0": p["ff_state_W"],
            "attention_cell": {
                "transition": transition,
                "cell_0": cell,
                "attention": {"score": score},
            },
        },
        "readout": {
            "U_o": p["ff_logit_gru_W"],
            "V_o": p["ff_logit_prev_W"],
            "C_o": p["ff_logit_ctx_W"],
            "b_o": p["ff_logit_gru_b"],
        },
        "W_o": p["ff_logit_W"],
        "b_w": p["ff_logit_b"],
    }


def test_the_preset_has_nmtpys_probabilities_and_weights():
    assert largest_difference(nmtpy, PARAMS, small_preset(), as_ours(PARAMS)) < 1e-5


def test_the_preset_has_nmtpys_gradients():
    assert_same_gradients(nmtpy, PARAMS, small_preset(), as_ours)


def with_another_initial_state(config, ours):
    config.model.initial_state = "zero"
    del ours["decoder"]["W_s_0"]


def without_attentions_bias(config, ours):
    config.model.attention.bias = False
    del ours["decoder"]["attention_cell"]["attention"]["score"]["b"]


def without_the_encoders_normalization(config, ours):
    config.model.layer_norm = "none"
    for direction in ours["encoder"].values():
        del direction["gain_W"], direction["gain_U"]


def without_the_word_in_the_readout(config, ours):
    config.model.readout_parts = "state_context"
    del ours["readout"]["V_o"]


@pytest.mark.parametrize(
    "change",
    [
        with_another_initial_state,
        without_attentions_bias,
        without_the_encoders_normalization,
        without_the_word_in_the_readout,
    ],
)
def test_another_form_is_told_from_nmtpy(change):
    config, ours = small_preset(), as_ours(PARAMS)
    change(config, ours)
    assert largest_difference(nmtpy, PARAMS, config, ours) > 1e-2
