"""What one device does in a training step, and the state that a step reads and replaces.

Sums and counts travel between devices; the division by the global count happens once. Averaging
the devices' own means would weigh tokens by how full their device's rows are.

`train.precision` concerns products and what the model stores of the source: parameters, states,
gates, softmax, losses, gradients and the optimiser are float32 always, and every product adds up in
float32.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from bahdanau_jax.config import TrainConfig
from bahdanau_jax.model.dropout import Noise, Rates, example_seeds
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.runtime.devices import AXIS
from bahdanau_jax.runtime.precision import products
from bahdanau_jax.special_ids import PAD


@flax.struct.dataclass
class TrainState:
    """Replicated over the devices; one checkpoint holds all of it."""

    step: Array  # updates so far, int32[]
    params: dict
    opt_state: optax.OptState
    key: Array  # root key of dropout, key[]; folded, never split or replaced


class TrainSums(NamedTuple):
    """One step's figures over all devices: sums and counts, and the gradient's norm."""

    loss: Array  # Σ of what is minimised, nats, float32[]
    nll: Array  # Σ -log p(y_i), nats, float32[]
    tokens: Array  # real target tokens, float32[]
    gradient_norm: Array  # of the mean gradient, before clipping, float32[]
    finite: Array  # whether loss and gradient were, and the update was made, bool[]


def create_state(model: Seq2Seq, optimizer: optax.GradientTransformation, seed: int) -> TrainState:
    """Returns the state before the first update.

    Args:
      model: the model.
      optimizer: the optimiser.
      seed: of the initialisation and of dropout.
    """
    root = jax.random.key(seed)
    params = initial_params(model, jax.random.fold_in(root, 0))
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        key=jax.random.fold_in(root, 1),
    )


def make_train_step(
    model: Seq2Seq, optimizer: optax.GradientTransformation, train: TrainConfig
) -> Callable:
    """Returns the per-device function `(state, batch) -> (state, TrainSums)`.

    Args:
      model: the model.
      optimizer: as from `optimizer.make_optimizer`.
      train: dropout rates, label smoothing, accumulation, precision and what the gradient is
        divided by are read.
    """
    model, by_sentence = with_storage(model, train.precision), train.normalize == "sentences"
    rates = Rates(**vars(train.dropout))

    def sums_and_gradient(params, batch, seeds):
        def summed_loss(params):
            noise = Noise(seeds, rates)
            arguments = (batch.source, batch.target, noise, train.label_smoothing)
            return model.apply({"params": params}, *arguments, method="loss_sums")

        with products(train.precision):
            (loss, nll), gradient = jax.value_and_grad(summed_loss, has_aux=True)(params)
        return loss, nll, gradient

    def train_step(state: TrainState, batch) -> tuple[TrainState, TrainSums]:
        rows = batch.source.shape[0]
        places = lax.axis_index(AXIS) * rows + jnp.arange(rows)
        seeds = example_seeds(state.key, state.step, places)
        if train.accumulate == 1:
            loss, nll, gradient = sums_and_gradient(state.params, batch, seeds)
        else:
            loss, nll, gradient = _sum_of_parts(
                lambda part: sums_and_gradient(state.params, *part),
                (batch, seeds),
                train.accumulate,
            )
        real = batch.target != PAD
        tokens = real.sum().astype(jnp.float32)
        # Rows that only fill up a batch have no token.
        parts = real.any(axis=1).sum().astype(jnp.float32) if by_sentence else tokens
        if lax.axis_size(AXIS) > 1:  # on one device the sum would only copy every gradient
            sums = (loss, nll, tokens, parts, gradient)
            loss, nll, tokens, parts, gradient = lax.psum(sums, AXIS)
        # Divided after the norm, and again below: outside the condition the mean gradient would be
        # an array more. The condition itself takes 5 % off a step that selects between all old and
        # new parameters and moments (64 sentences, S = T = 16, multi30k, 2 CPU cores).
        norm = optax.tree.norm(gradient) / parts
        # One entry that isn't finite makes the norm so. The step counts, for its batch was read.
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)

        def update(params, opt_state):
            mean = jax.tree.map(lambda g: g / parts, gradient)
            updates, opt_state = optimizer.update(mean, opt_state, params)
            return optax.apply_updates(params, updates), opt_state

        params, opt_state = lax.cond(
            finite, update, lambda *unchanged: unchanged, state.params, state.opt_state
        )
        new = dataclasses.replace(state, step=state.step + 1, params=params, opt_state=opt_state)
        return new, TrainSums(loss, nll, tokens, norm, finite)

    return train_step


def _sum_of_parts(function: Callable, rows: Any, parts: int) -> Any:
    """Returns the sum of `function` over equal parts of a tree of rows, one after another."""
    cut = jax.tree.map(lambda x: x.reshape(parts, x.shape[0] // parts, *x.shape[1:]), rows)
    shapes = jax.eval_shape(function, jax.tree.map(lambda x: x[0], cut))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def add(total, part):
        return jax.tree.map(jnp.add, total, function(part)), None

    return lax.scan(add, zeros, cut)[0]


def with_storage(model: Seq2Seq, precision: str) -> Seq2Seq:
    """Returns the model, its keys and annotations stored as `train.precision` says."""
    return model.clone(stored="bfloat16") if precision.startswith("bfloat16") else model
