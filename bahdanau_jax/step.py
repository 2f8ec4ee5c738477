"""What one device does in a training step and in a teacher-forced evaluation.

Sums and counts travel between devices; the division by the global count happens once. Averaging
the devices' own means would weigh tokens by how full their device's rows are.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from bahdanau_jax.config import TrainConfig
from bahdanau_jax.dropout import Noise, Rates, example_seeds
from bahdanau_jax.loss import smoothed_nll, token_nll
from bahdanau_jax.model import PAD, Seq2Seq
from bahdanau_jax.parallel import AXIS
from bahdanau_jax.state import TrainState


class TrainSums(NamedTuple):
    """One step's figures over all devices: sums and counts, and the gradient's norm."""

    loss: Array  # Σ of what is minimised, nats, float32[]
    nll: Array  # Σ -log p(y_i), nats, float32[]
    tokens: Array  # real target tokens, float32[]
    gradient_norm: Array  # of the mean gradient, before clipping, float32[]
    finite: Array  # whether loss and gradient were, and the update was made, bool[]


class ExampleSums(NamedTuple):
    """Teacher-forced figures, one an example."""

    nll: Array  # Σ_i -log p(y_i), nats, float32[B]
    tokens: Array  # real target tokens, int32[B]


def make_train_step(
    model: Seq2Seq, optimizer: optax.GradientTransformation, train: TrainConfig
) -> Callable:
    """Returns the per-device function `(state, batch) -> (state, TrainSums)`.

    Args:
      model: the model.
      optimizer: as from `optimizer.make_optimizer`.
      train: dropout rates and label smoothing are read.
    """
    rates = Rates(train.dropout.embedding, train.dropout.annotations, train.dropout.readout)

    def train_step(state: TrainState, batch) -> tuple[TrainState, TrainSums]:
        rows = batch.source.shape[0]
        places = lax.axis_index(AXIS) * rows + jnp.arange(rows)
        noise = Noise(example_seeds(state.key, state.step, places), rates)
        real = batch.target != PAD

        def summed_loss(params):
            logits, _ = model.apply({"params": params}, batch.source, batch.target, noise)
            loss = smoothed_nll(logits, batch.target, train.label_smoothing)
            nll = token_nll(lax.stop_gradient(logits), batch.target)
            return jnp.sum(loss, where=real), jnp.sum(nll, where=real)

        (loss, nll), gradient = jax.value_and_grad(summed_loss, has_aux=True)(state.params)
        tokens = real.sum().astype(jnp.float32)
        loss, nll, tokens, gradient = lax.psum((loss, nll, tokens, gradient), AXIS)
        gradient = jax.tree.map(lambda g: g / tokens, gradient)
        norm = optax.tree.norm(gradient)
        # One entry that isn't finite makes the norm so. The step counts, for its batch was read.
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        made = (optax.apply_updates(state.params, updates), opt_state)
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), made, (state.params, state.opt_state)
        )
        new = dataclasses.replace(state, step=state.step + 1, params=params, opt_state=opt_state)
        return new, TrainSums(loss, nll, tokens, norm, finite)

    return train_step


def make_eval_step(model: Seq2Seq) -> Callable:
    """Returns the per-device function `(params, batch) -> ExampleSums`, without dropout."""

    def eval_step(params, batch) -> ExampleSums:
        logits, _ = model.apply({"params": params}, batch.source, batch.target)
        real = batch.target != PAD
        nll = jnp.sum(token_nll(logits, batch.target), axis=-1, where=real)
        return ExampleSums(nll, real.sum(axis=-1))

    return eval_step
