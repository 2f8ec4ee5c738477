"""RNNsearch's preset beside GroundHog's own recurrence, which made the paper's figures."""

import groundhog
import jax.numpy as jnp
import pytest
from originals import assert_same_gradients, largest_difference, random_params

from bahdanau_jax.config import Config
from bahdanau_jax.special_ids import BOS
from experiments import groundhog_rnnsearch

E, H, R = 3, 4, 2
PARAMS = random_params(groundhog, E, H, R)


def small_preset() -> Config:
    """The preset with sizes at which every number is looked at."""
    config = groundhog_rnnsearch.get_config()
    model = config.model
    model.embedding = E + 1  # one number more: see `as_ours`
    model.encoder.units = model.decoder.units = model.attention.units = H
    model.readout_units = R
    return config


def as_ours(p) -> dict:
    """GroundHog's parameters in this project's layout.

    GroundHog's first query is s_0 and its first word has none before it; here a state has read the
    begin mark first. The two meet where the begin mark is a number of its own in the embedding, 1,
    that closes the update gate and does nothing else: s_0 stays as it is.
    """

    def gates(name, extra=None):  # in the order reset, update, proposal
        parts = [p[name.format(gate)] for gate in "RGW"]
        if extra is not None:
            zeros = jnp.zeros((1, H))
            rows = (zeros, jnp.full((1, H), extra), zeros)
            parts = [jnp.concatenate(pair) for pair in zip(parts, rows, strict=True)]
        return jnp.concatenate(parts, axis=1)

    def bias(side):
        return jnp.concatenate([jnp.zeros(2 * H), p[f"{side}_W_b"]])

    def direction(side):
        return {"W": gates(side + "_{}_in", 0.0), "U": gates(side + "_{}_hh"), "b": bias(side)}

    def embedding(side):
        table = jnp.asarray(p[f"{side}_embdr"]) + p[f"{side}_embdr_b"][None]
        marks = jnp.zeros((len(table), 1))
        if side == "dec":
            table, marks = table.at[BOS].set(0.0), marks.at[BOS].set(1.0)
        return jnp.concatenate([table, marks], axis=1)

    def halves(x):  # maxout is of neighbours there, of k and k + R here
        return jnp.concatenate([x[..., 0::2], x[..., 1::2]], axis=-1)

    cell = {
        "W": gates("dec_{}_in", -1000.0),
        "U": gates("dec_{}_hh"),
        "C": gates("dec_c_{}"),
        "b": bias("dec"),
    }
    score = {"W_a": p["B_hp"], "U_a": p["A_cp"], "v_a": p["D_pe"][:, 0]}
    return {
        "source_embedding": embedding("enc"),
        "target_embedding": embedding("dec"),
        "encoder": {"forward_0": direction("enc"), "backward_0": direction("back")},
        "decoder": {
            "W_s_0": p["initializer"],
            "attention_cell": {"cell_0": cell, "attention": {"score": score}},
        },
        "readout": {
            "C_o": halves(p["repr_readout"]),
            "U_o": halves(p["hid_readout"]),
            "V_o": jnp.concatenate([halves(p["prev_readout"]), jnp.zeros((1, 2 * R))]),
            "b_o": halves(p["hid_readout_b"]),
        },
        "W_o": p["softmax_1"] @ p["softmax_2"],
        "b_w": p["softmax_b"],
    }


def test_the_preset_has_groundhogs_probabilities_and_weights():
    assert largest_difference(groundhog, PARAMS, small_preset(), as_ours(PARAMS)) < 1e-5


def test_the_preset_has_groundhogs_gradients():
    assert_same_gradients(groundhog, PARAMS, small_preset(), as_ours)


def with_another_query(config, ours):
    config.model.attention.query, config.model.feeding = "previous", "none"


def with_another_reset(config, ours):
    config.model.gru_reset = "after"
    for cell in (*ours["encoder"].values(), ours["decoder"]["attention_cell"]["cell_0"]):
        cell["b_u"] = jnp.zeros(H)


def with_another_initial_state(config, ours):
    config.model.initial_state = "zero"
    del ours["decoder"]["W_s_0"]


@pytest.mark.parametrize(
    "change", [with_another_query, with_another_reset, with_another_initial_state]
)
def test_another_form_is_told_from_groundhog(change):
    config, ours = small_preset(), as_ours(PARAMS)
    change(config, ours)
    assert largest_difference(groundhog, PARAMS, config, ours) > 1e-2
