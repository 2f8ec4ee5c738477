"""Additive attention for sequence-to-sequence models, in twelve rooms over a ground floor.

The ground floor: `config`, `fields`, `validation`, `effects`, `errors`, `special_ids`, `durable`,
`lines` and `terminal`. Above it, each importing only from the floors before it: `model` and
`runtime`; `search`, `data` and `workdir`; `evaluation`; `reports`; `training`; `modes` and
`sweeps`; `comparison`; `cli`.
"""

__version__ = "0.1.0"
