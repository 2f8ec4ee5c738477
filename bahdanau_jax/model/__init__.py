"""The science, in the order of the paper: encoder, attention, decoder, and the whole of them.

Imports jax, flax and the ground floor's `config` and `special_ids`, nothing else of this package.
"""
