"""Which configuration of a sweep is better, and whether that is more than noise.

Imports the ground floor and the rooms up to `modes` and `sweeps`.
"""
