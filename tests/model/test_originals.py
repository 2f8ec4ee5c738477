"""The presets beside their originals' recurrences, written down from the originals' code alone."""

from typing import Any

import groundhog
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.special_ids import BOS, PAD
from experiments import groundhog_rnnsearch

E, H, R, SOURCE, TARGET = 3, 4, 2, 7, 8
# Three sentences of different lengths; 2 is the end mark.
X = np.array([[4, 5, 6, 4, 2], [6, 5, 2, 0, 0], [5, 2, 0, 0, 0]])
Y = np.array([[7, 4, 5, 2], [2, 0, 0, 0], [5, 6, 2, 0]])


def small_preset() -> Config:
    """The preset with sizes at which every number is looked at."""
    config = groundhog_rnnsearch.get_config()
    model = config.model
    model.embedding = E + 1  # one number more: see `as_ours`
    model.encoder.units = model.decoder.units = model.attention.units = H
    model.readout_units = R
    return config


def original_params() -> groundhog.Params:
    chance = np.random.default_rng(0)
    shapes = groundhog.parameter_shapes(SOURCE, TARGET, E, H, R)
    return {name: chance.normal(0, 0.7, shape) for name, shape in shapes.items()}


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


def original_inputs() -> tuple:
    """Time first, and a mask of numbers, as GroundHog has them."""
    return X.T, (X != PAD).T.astype(float), Y.T, (Y != PAD).T.astype(float)


def our_nll(config: Config, ours) -> Any:
    """-log p of each word [B, T], 0 at padding, and the weights [B, T, S]."""
    model = Seq2Seq(config.model, SOURCE, TARGET)
    logits, alignments = model.apply({"params": ours}, X, Y)
    return jnp.where(Y == PAD, 0.0, token_nll(logits, jnp.asarray(Y))), alignments


def test_groundhog_has_the_probabilities_and_the_weights_of_its_preset():
    params = original_params()
    log_p, weights = groundhog.log_probabilities(params, *original_inputs())
    nll, alignments = jax.jit(lambda p: our_nll(small_preset(), as_ours(p)))(params)
    np.testing.assert_allclose(-log_p.T, nll, atol=1e-5)
    wanted = np.transpose(weights, (2, 0, 1)) * (Y != PAD)[:, :, None]
    real = np.asarray(alignments) * (Y != PAD)[:, :, None]
    np.testing.assert_allclose(real, wanted, atol=1e-5)


def test_groundhog_has_the_gradients_of_its_preset():
    params = original_params()
    assert small_preset().train.normalize == "sentences"

    def cost(p):
        return our_nll(small_preset(), as_ours(p))[0].sum() / len(X)

    gradients = jax.jit(jax.grad(cost))(params)
    for name, values in params.items():
        wanted = np.zeros_like(values)
        for place in np.ndindex(*values.shape):
            costs = []
            for step in (1e-5, -1e-5):
                moved = {**params, name: values.copy()}
                moved[name][place] += step
                costs.append(groundhog.cost(moved, *original_inputs()))
            wanted[place] = (costs[0] - costs[1]) / 2e-5
        np.testing.assert_allclose(gradients[name], wanted, atol=1e-5, err_msg=name)


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
def test_another_form_has_other_probabilities_than_groundhog(change):
    params = original_params()
    config, ours = small_preset(), as_ours(params)
    change(config, ours)
    nll, _ = jax.jit(lambda p: our_nll(config, p))(ours)
    log_p, _ = groundhog.log_probabilities(params, *original_inputs())
    assert abs(nll + log_p.T).max() > 1e-2
