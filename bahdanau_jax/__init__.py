"""Additive attention for sequence-to-sequence models, in thirteen rooms over a ground floor.

    from bahdanau_jax import load_run

    run = load_run("runs/cmudict")

The ground floor: `config`, `allowed`, `fields`, `validation`, `effects`, `errors`, `special_ids`,
`durable`, `lines` and `terminal`. Above it, each importing only from the floors before it: `model`
and `runtime`; `search`, `data` and `workdir`; `evaluation`; `reports`; `training`; `modes`,
`sweeps` and `interface`; `comparison`; `cli`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bahdanau_jax.config import Config
    from bahdanau_jax.errors import InputError
    from bahdanau_jax.interface.results import Attended, Translation
    from bahdanau_jax.interface.run import Run, load_run, train

__version__ = "0.1.0"

_HOMES = {
    "Attended": "interface.results",
    "Config": "config",
    "InputError": "errors",
    "Run": "interface.run",
    "Translation": "interface.results",
    "load_run": "interface.run",
    "train": "interface.run",
}
__all__ = ["Attended", "Config", "InputError", "Run", "Translation", "load_run", "train"]


def __getattr__(name: str) -> Any:
    """Imports what is asked for when it is: importing JAX takes a second."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, name)
