"""Bahdanau (additive) attention for sequence-to-sequence models, in JAX and Flax Linen."""

__version__ = "0.1.0"
