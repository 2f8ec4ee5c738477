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
    params: dict  # what is evaluated: the parameters, or with `train.average` their average
    opt_state: optax.OptState
    key: Array  # root key of dropout, key[]; folded, never split or replaced
    trained: dict | None = None  # with `train.average` the parameters that updates change

    def beginning_with(self, params: dict) -> "TrainState":
        """Returns the state with other parameters, from which their average begins too."""
        # A copy, because a step that is given its state away can't be given one array twice.
        trained = None if self.trained is None else jax.tree.map(jnp.copy, params)
        return dataclasses.replace(self, params=params, trained=trained)


class TrainSums(NamedTuple):
    """One step's figures over all devices: sums and counts, and the gradient's norm."""

    loss: Array  # Σ of what is minimised, nats, float32[]
    nll: Array  # Σ -log p(y_i), nats, float32[]
    tokens: Array  # real target tokens, float32[]
    gradient_norm: Array  # of the mean gradient, before clipping, float32[]
    finite: Array  # whether loss and gradient were, and the update was made, bool[]
    of_alignments: dict[str, Array]  # Σ of each loss of alignments that counts, by name, float32[]


def create_state(
    model: Seq2Seq, optimizer: optax.GradientTransformation, seed: int, average: float = 0.0
) -> TrainState:
    """Returns the state before the first update.

    Args:
      model: the model.
      optimizer: the optimiser.
      seed: of the initialisation and of dropout.
      average: `train.average`.
    """
    root = jax.random.key(seed)
    params = initial_params(model, jax.random.fold_in(root, 0))
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        key=jax.random.fold_in(root, 1),
        trained=params if average else None,
    )


def make_train_step(
    model: Seq2Seq, optimizer: optax.GradientTransformation, train: TrainConfig
) -> Callable:
    """Returns the per-device function `(state, batch) -> (state, TrainSums)`.

    Args:
      model: the model.
      optimizer: as from `optimizer.make_optimizer`.
      train: dropout rates, the weights of the losses, accumulation, precision, averaging and what
        the gradient is divided by are read.
    """
    model, by_sentence = with_storage(model, train.precision), train.normalize == "sentences"
    rates = Rates(**vars(train.dropout))

    def sums_and_gradient(params, batch, seeds):
        def summed_loss(params):
            noise = Noise(seeds, rates)
            sums: Any = model.apply(
                {"params": params},
                batch.source,
                batch.target,
                noise,
                train.label_smoothing,
                train.coverage,
                train.guide,
                batch.links,
                method="loss_sums",
            )
            return sums.loss, sums

        with products(train.precision):
            (_, sums), gradient = jax.value_and_grad(summed_loss, has_aux=True)(params)
        return sums, gradient

    def train_step(state: TrainState, batch) -> tuple[TrainState, TrainSums]:
        rows = batch.source.shape[0]
        places = lax.axis_index(AXIS) * rows + jnp.arange(rows)
        seeds = example_seeds(state.key, state.step, places)
        trained = state.params if state.trained is None else state.trained
        if train.accumulate == 1:
            sums, gradient = sums_and_gradient(trained, batch, seeds)
        else:
            sums, gradient = _sum_of_parts(
                lambda part: sums_and_gradient(trained, *part),
                (batch, seeds),
                train.accumulate,
            )
        real = batch.target != PAD
        tokens = real.sum().astype(jnp.float32)
        # Rows that only fill up a batch have no token.
        parts = real.any(axis=1).sum().astype(jnp.float32) if by_sentence else tokens
        if lax.axis_size(AXIS) > 1:  # on one device the sum would only copy every gradient
            counted = (sums, tokens, parts, gradient)
            sums, tokens, parts, gradient = lax.psum(counted, AXIS)
        # Divided after the norm, and again below: outside the condition the mean gradient would be
        # an array more. The condition itself takes 5 % off a step that selects between all old and
        # new parameters and moments (64 sentences, S = T = 16, multi30k, 2 CPU cores).
        norm = optax.tree.norm(gradient) / parts
        # One entry that isn't finite makes the norm so. The step counts, for its batch was read.
        finite = jnp.isfinite(sums.loss) & jnp.isfinite(norm)

        def update(learned):
            mean = jax.tree.map(lambda g: g / parts, gradient)
            updates, opt_state = optimizer.update(mean, learned["opt_state"], trained)
            params = optax.apply_updates(trained, updates)
            if state.trained is None:
                return {"params": params, "opt_state": opt_state, "trained": None}
            average = moving_average(learned["params"], params, train.average, state.step)
            return {"params": average, "opt_state": opt_state, "trained": params}

        learned = {name: getattr(state, name) for name in ("params", "opt_state", "trained")}
        learned = lax.cond(finite, update, lambda unchanged: unchanged, learned)
        new = dataclasses.replace(state, step=state.step + 1, **learned)
        return new, TrainSums(sums.loss, sums.nll, tokens, norm, finite, sums.of_alignments)

    return train_step


def moving_average(average: Any, params: Any, decay: float, step: Array) -> Any:
    """Returns d times the average plus 1 - d times the parameters, d = min(decay, (1+t)/(10+t)).

    A decay near 1 would hold on to the first parameters for long; so the first steps forget more.
    It is the rule of TensorFlow's ExponentialMovingAverage.

    Args:
      average: of the parameters before.
      params: the parameters after this update.
      decay: `train.average`.
      step: t, the steps before this one, `int32[]`.
    """
    d = jnp.minimum(decay, (1.0 + step) / (10.0 + step))
    return jax.tree.map(lambda mean, x: d * mean + (1 - d) * x, average, params)


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
