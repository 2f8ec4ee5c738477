"""What the products of matrices are computed in. Left to themselves, devices differ.

A CPU multiplies float32 as it is. By default a TPU rounds the operands to bfloat16, and a recent
NVIDIA GPU to TF32, which has ten bits of fraction; both add up in float32.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import jax

# By `train.precision`; JAX's names of how operands are treated and products added up.
TRAINING = {
    "float32": "highest",
    "bfloat16_storage": "highest",
    "bfloat16": "BF16_BF16_F32",
    "tf32": "tensorfloat32",
    "default": "default",
}
EVALUATION = TRAINING | {"bfloat16": "highest"}


def products(precision: str) -> contextlib.AbstractContextManager:
    """Returns a context in which JAX traces a step of training as `train.precision` says."""
    return jax.default_matmul_precision(TRAINING[precision])


def precisely(function: Callable, precision: str) -> Callable:
    """Returns a function whose products are those of a model trained with `train.precision`.

    Args:
      function: that evaluates or searches. It isn't rounded to bfloat16, as gradients may be.
      precision: as `train.precision`.
    """

    @functools.wraps(function)
    def traced(*arguments: Any) -> Any:
        with jax.default_matmul_precision(EVALUATION[precision]):
            return function(*arguments)

    return traced
