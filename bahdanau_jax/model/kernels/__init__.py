"""Faster forms of some of the model's equations; each takes and returns arrays.

The files here import `model.equations` and one another. Which models a kernel computes is said
beside the equation that it replaces: `encoder.covers`, `decoder.covers`,
`attention.fused_kernel_covers`. Here is the one table of them, and the one question whether a
kernel may run.
"""

from typing import NamedTuple

import jax


class Kernel(NamedTuple):
    """A faster form, what it is worth, and where that was measured."""

    name: str  # its file in this folder
    replaces: str
    when: str  # which models it computes
    gain: str  # without it -> with it; forwards and backwards
    measured_on: str = "2 CPU cores"
    platforms: tuple[str, ...] = ("cpu",)  # JAX's names of the backends that it was measured on


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            name="gru",
            replaces="nn.scan over a cell of the encoder",
            when="cell=gru, no layer_norm of the encoder, no dropout of states",
            gain="61 -> 55 ms (B=64, S=16, E=H=256, both directions)",
        ),
        Kernel(
            name="decoder_loop",
            replaces="nn.scan over the decoder's cell",
            when="a score other than fixed, window=global, no coverage, one decoder layer, no "
            "layer_norm of the decoder, no dropout of states",
            gain="97 -> 84 ms (additive, B=64, S=T=16, H=A=512)",
        ),
        Kernel(
            name="output_loss",
            replaces="the output layer's logits and their loss",
            when="every model",
            gain="113 -> 73 ms (1,024 tokens, R=256, V=8,000)",
        ),
        Kernel(
            name="top_k",
            replaces="lax.top_k in the search",
            when="every model",
            gain="3.8 -> 0.7 ms (the 5 largest of 8,000, 320 times)",
        ),
        Kernel(
            name="fused_attention",
            replaces="score, softmax and context of one step",
            when="score=additive, window=global, no coverage, no normalize_keys",
            gain="not measured",
            measured_on="no accelerator yet; on a CPU it is interpreted",
            platforms=(),
        ),
    )
}


def platform() -> str:
    """Returns JAX's name of the backend that is traced for, as `cpu`, `gpu` or `tpu`."""
    return jax.default_backend()


def may_run(name: str, setting: str) -> bool:
    """Returns whether a kernel is used for the models that it computes.

    Args:
      name: a key of `KERNELS`.
      setting: `ModelConfig.kernels`: with `auto` a kernel runs on the platforms on which it was
        measured, with `reference` nowhere.
    """
    return setting == "auto" and platform() in KERNELS[name].platforms
