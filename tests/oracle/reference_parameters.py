"""Nested dictionaries of parameters: their shapes by the contract, random values, derivatives.

Nothing here computes the model; the shapes are written from the equations, as the oracle is.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from bahdanau_jax.config import ModelConfig

Params = dict[str, Any]


@dataclasses.dataclass
class Difference:
    """One component's derivative by central differences."""

    path: tuple[str, ...]
    index: tuple[int, ...]
    value: float

    def of(self, tree: Params) -> float:
        """Returns the same component of another tree, such as a gradient."""
        return float(np.asarray(lookup(tree, self.path))[self.index])


def float64(tree: Any) -> Any:
    """Returns a copy of nested dictionaries with every array as NumPy float64."""
    if isinstance(tree, dict):
        return {name: float64(value) for name, value in tree.items()}
    return np.array(tree, dtype=np.float64)


def leaf_paths(tree: Params, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of all arrays in nested dictionaries, in order of their names."""
    paths = []
    for name in sorted(tree):
        value, path = tree[name], (*prefix, name)
        paths += leaf_paths(value, path) if isinstance(value, dict) else [path]
    return paths


def lookup(tree: Any, path: tuple[str, ...]) -> Any:
    """Returns the array at a path."""
    for name in path:
        tree = tree[name]
    return tree


def finite_difference(
    f: Callable[[Params], float], params: Params, rng: np.random.Generator, count: int
) -> list[Difference]:
    """df/dp = (f(p + d) - f(p - d)) / 2d at random components of arrays taken in turn.

    `f` has to compute in float64: the step d is far below what float32 resolves.
    """
    delta = 1e-5
    params = float64(params)
    paths = leaf_paths(params)
    order = rng.permutation(len(paths))
    differences = []
    for k in range(count):
        path = paths[order[k % len(paths)]]
        array = lookup(params, path)
        index = tuple(int(rng.integers(size)) for size in array.shape)
        value = array[index].copy()
        array[index] = value + delta
        above = f(params)
        array[index] = value - delta
        below = f(params)
        array[index] = value
        differences.append(Difference(path, index, (above - below) / (2 * delta)))
    return differences


def cell_shapes(
    config: ModelConfig, inputs: int, units: int, context: int = 0, normalized: bool = False
) -> Params:
    """Shapes of one cell's arrays; `context` 0: no context input."""
    width = (4 if config.cell == "lstm" else 3) * units
    shapes = {"W": (inputs, width), "U": (units, width), "b": (width,)}
    if context:
        shapes["C"] = (context, width)
    if config.cell == "gru" and config.gru_reset == "after":
        shapes["b_u"] = (units,)
    if normalized:
        shapes |= {f"gain_{name}": (width,) for name in ("W", "U", "C") if name in shapes}
        if config.cell == "lstm":
            shapes |= {"gain_m": (units,), "b_m": (units,)}
    return shapes


def attention_shapes(config: ModelConfig, annotation: int) -> Params:
    """Shapes of the score's and the window's arrays; empty where there are none."""
    attention, H = config.attention, config.decoder.units
    A = annotation if attention.score == "concat_identity" else attention.units
    shapes: Params = {}
    if attention.score in ("additive", "projected"):
        shapes = {"W_a": (H, A), "U_a": (annotation, A)}
    elif attention.score == "concat":
        shapes = {"W_a": (H + annotation, A)}
    elif attention.score in ("concat_identity", "general"):
        shapes = {"W_a": (H, annotation)}
    if attention.score in ("additive", "concat", "concat_identity"):
        shapes["v_a"] = (A,)
    if attention.bias:
        shapes["b"] = (A,)
    if attention.coverage:
        shapes["w_cov"] = (A,)
    if attention.normalize:
        shapes["g"] = ()
    if attention.normalize_keys:
        width = annotation if attention.score in ("dot", "general") else A
        shapes |= {"gain_q": (width,), "gain_k": (width,)}
    if attention.scale == "learned":
        shapes["scale"] = ()
    if attention.window == "local_p":
        shapes |= {"W_p": (H, H), "v_p": (H,)}
    return shapes


def readout_shapes(config: ModelConfig, annotation: int, target_size: int) -> Params:
    """Shapes of the readout's arrays, but for W_c, which feeding needs in the cell."""
    H, E, R = config.decoder.units, config.embedding, config.readout_units
    shapes: Params = {"b_w": (target_size,)}
    if config.tie_embeddings == "none":
        shapes["W_o"] = (H if config.readout == "linear" else R, target_size)
    if config.readout == "maxout":
        shapes |= {"U_o": (H, 2 * R), "V_o": (E, 2 * R), "C_o": (annotation, 2 * R)}
        shapes["b_o"] = (2 * R,)
    if config.readout == "tanh":
        shapes |= {"U_o": (H, R), "b_o": (R,)}
        if "word" in config.readout_parts:
            shapes["V_o"] = (E, R)
        if "context" in config.readout_parts:
            shapes["C_o"] = (annotation, R)
    return shapes


def parameter_shapes(config: ModelConfig, source_size: int, target_size: int) -> Params:
    """Shapes of the whole model's arrays, in its nesting; sizes are the vocabularies'."""
    E, units, H = config.embedding, config.encoder.units, config.decoder.units
    directions = ("forward", "backward") if config.encoder.bidirectional else ("forward",)
    annotation = len(directions) * units
    below = config.layer_norm in ("encoder", "both")
    above = config.layer_norm in ("decoder", "both")
    encoder = {
        f"{direction}_{layer}": cell_shapes(config, annotation if layer else E, units, 0, below)
        for layer in range(config.encoder.layers)
        for direction in directions
    }
    if config.attention.query == "previous":
        cell: Params = {"cell_0": cell_shapes(config, E, H, annotation, above)}
    elif config.attention.query == "intermediate":
        cell = {
            "transition_0": cell_shapes(config, E, H, 0, above),
            "cell_0": cell_shapes(config, annotation, H, 0, above),
        }
    else:
        fed = {"none": 0, "context": annotation, "attentional": config.readout_units}
        cell = {"cell_0": cell_shapes(config, E, H, fed[config.feeding], above)}
    for layer in range(1, config.decoder.layers):
        cell[f"cell_{layer}"] = cell_shapes(config, H, H, 0, above)
    if config.readout == "attentional":
        cell["W_c"] = (annotation + H, config.readout_units)
    attention = attention_shapes(config, annotation)
    if attention:
        cell["attention"] = attention
    shapes = {
        "source_embedding": (source_size, E),
        "target_embedding": (target_size, E),
        "encoder": encoder,
        "decoder": {"cell": cell},
        "readout": readout_shapes(config, annotation, target_size),
    }
    if config.tie_embeddings == "all":
        del shapes["source_embedding"]
    if config.initial_state not in ("zero", "layers"):
        v = units if config.initial_state == "backward" else annotation
        layers = range(config.decoder.layers)
        shapes["initial_state"] = {f"W_s_{layer}": (v, H) for layer in layers}
    return shapes


def random_parameters(shapes: Params, rng: np.random.Generator, deviation: float = 0.5) -> Params:
    """Normal values of every shape in a tree; none is zero, so that every part shows."""
    return {
        name: random_parameters(shape, rng, deviation)
        if isinstance(shape, dict)
        else np.asarray(rng.normal(0.0, deviation, shape))
        for name, shape in shapes.items()
    }
