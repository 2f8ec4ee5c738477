"""Many runs: grids of configurations, where their cells run, replicas, and the tuner.

Imports the ground floor and the rooms up to `training`.
"""
