"""Faster forms of some of the model's equations; each takes and returns arrays.

Imports `model.equations` and this folder only; whether a kernel is used is decided beside what it
replaces.
"""
