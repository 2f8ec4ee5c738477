"""What is computed and stored in bfloat16 under `train.precision`; all else stays float32.

Parameters, states, gates, softmax, losses, gradients and the optimiser are float32 always, and
every product adds up in float32.
"""

import contextlib

import jax

from bahdanau_jax.model.seq2seq import Seq2Seq


def with_storage(model: Seq2Seq, precision: str) -> Seq2Seq:
    """Returns the model, its keys and annotations stored as `train.precision` says."""
    return model if precision == "float32" else model.clone(stored="bfloat16")


def products(precision: str) -> contextlib.AbstractContextManager:
    """Returns a context in which JAX traces products as `train.precision` says.

    With bfloat16 both operands of a product are rounded to it, forwards and backwards, and their
    products are added up in float32.
    """
    if precision != "bfloat16":
        return contextlib.nullcontext()
    return jax.default_matmul_precision("BF16_BF16_F32")
