"""Trained runs as Python objects, for notebooks and programs; `bahdanau_jax` hands them on.

Imports the ground floor and the rooms up to `training`.
"""
