"""The training step and the one loop around it.

Imports the ground floor and the rooms up to `reports`.
"""
