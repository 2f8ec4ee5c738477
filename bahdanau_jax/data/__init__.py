"""From text to batches: sources, vocabularies, the token store, padded shapes.

Imports the ground floor and `runtime`; never jax.
"""
