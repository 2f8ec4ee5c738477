"""The same parameters in the two nestings: the Flax model's and the oracle's."""

from typing import Any

import flax.linen as nn
import jax
import numpy as np
import reference_parameters

from bahdanau_jax.config import ModelConfig

Params = dict[str, Any]


def apply(module: nn.Module, params: Params, *arguments: Any, method: Any = None) -> Any:
    """Returns what a module's method returns; Flax's own annotation allows for a pair as well."""
    return module.apply({"params": params}, *arguments, method=method)


def attention_to_flax(params: Params) -> Params:
    """Returns the oracle's arrays of score and window as the `Attention` module's."""
    window = {name: params[name] for name in ("W_p", "v_p") if name in params}
    score = {name: value for name, value in params.items() if name not in window}
    return ({"score": score} if score else {}) | window


def to_flax(params: Params) -> Params:
    """Returns the oracle's nesting as the model's."""
    cell = dict(params["decoder"]["cell"])
    attention = attention_to_flax(cell.pop("attention", {}))
    if "transition_0" in cell:
        cell["transition"] = cell.pop("transition_0")
    if attention:
        cell["attention"] = attention
    readout = dict(params["readout"])
    output = {name: readout.pop(name) for name in ("W_o", "b_w") if name in readout}
    decoder = {"attention_cell": cell, **params.get("initial_state", {})}
    tree = {"encoder": params["encoder"], "decoder": decoder, **output}
    if readout:
        tree["readout"] = readout
    return tree | embeddings(params)


def to_oracle(tree: Params) -> Params:
    """Returns the model's nesting as the oracle's."""
    decoder = dict(tree["decoder"])
    cell = dict(decoder.pop("attention_cell"))
    attention = dict(cell.pop("attention", {}))
    attention |= attention.pop("score", {})
    if attention:
        cell["attention"] = attention
    if "transition" in cell:
        cell["transition_0"] = cell.pop("transition")
    output = {name: tree[name] for name in ("W_o", "b_w") if name in tree}
    params = {
        "encoder": tree["encoder"],
        "decoder": {"cell": cell},
        "readout": tree.get("readout", {}) | output,
    }
    if decoder:  # W_s_0 and so on
        params["initial_state"] = decoder
    return params | embeddings(tree)


def embeddings(tree: Params) -> Params:
    """Returns the embeddings of either nesting; the target's alone where both sides share it."""
    return {name: tree[name] for name in ("source_embedding", "target_embedding") if name in tree}


def random_tree(
    config: ModelConfig, source_size: int, target_size: int, seed: int = 0, dtype=np.float32
) -> Params:
    """Returns generic parameters in the model's nesting, none of them zero."""
    shapes = reference_parameters.parameter_shapes(config, source_size, target_size)
    params = reference_parameters.random_parameters(shapes, np.random.default_rng(seed))
    return jax.tree.map(lambda array: array.astype(dtype), to_flax(params))


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """Returns every array of a tree by its path, as `decoder/W_s_0`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in leaves
    }
