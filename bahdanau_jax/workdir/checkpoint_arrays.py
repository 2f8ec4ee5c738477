"""The arrays of a checkpoint: under which names they are saved, and whether they fit a model."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from bahdanau_jax.errors import InputError


def address(key_path: tuple[Any, ...]) -> tuple[str, ...]:
    """Returns where a leaf is saved: the item, `params` or `rest`, then the names within it."""
    names = tuple(jax.tree_util.keystr((key,), simple=True) for key in key_path)
    return names if names[0] == "params" else ("rest", *names)


def items(state: Any) -> dict[str, Any]:
    """Splits a state into the items to save: nested dicts of leaves, whatever its own classes.

    Plain dicts keep a checkpoint readable by a program that doesn't know the optimizer's classes,
    and parameters that are an item of their own can be read without the rest.
    """
    leaves = jax.tree_util.tree_flatten_with_path(state)[0]
    return unflatten_dict({address(path): leaf for path, leaf in leaves})


def abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    """Returns a leaf's shape, and where it goes: its own place, or this process's first device."""
    sharding = getattr(leaf, "sharding", None)
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def check_fit(path: Path, stored: Any, wanted: dict[str, Any]) -> None:
    """Compares what a checkpoint holds with what is to be read from it.

    Args:
      path: of the checkpoint.
      stored: Orbax's metadata of its items.
      wanted: as `items` returns it, of shapes.

    Raises:
      InputError: the checkpoint holds other arrays; names one of them.
    """
    held = flatten_dict({item: stored[item].tree for item in wanted if item in stored})
    expected = flatten_dict(wanted)
    for name in sorted(expected.keys() | held.keys()):
        a, b = _describe(held.get(name)), _describe(expected.get(name))
        if a != b:
            raise InputError(
                f"the checkpoint {path} is of another model or optimizer: {'.'.join(name)} is "
                f"{a} there and {b} here; use the configuration that it was trained with"
            )


def _describe(array: Any) -> str:
    if array is None:
        return "absent"
    shape, dtype = array.shape, array.dtype
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        # Orbax lists a typed key by the words that it consists of.
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
        shape, dtype = data.shape, data.dtype
    return f"{np.dtype(dtype).name}{list(shape)}"
