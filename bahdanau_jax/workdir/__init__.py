"""What a run leaves on disk: its directory, manifest, metrics, checkpoints, and how one is chosen.

Imports the ground floor, `model` and `runtime`; the only room that imports Orbax.
"""
