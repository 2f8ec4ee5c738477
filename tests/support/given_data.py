"""Raw files of data sets that lie on this machine, found as the project itself finds them."""

import os
from pathlib import Path

import pytest

from bahdanau_jax.data.datasets.raw_files import VARIABLE

# As a user's own variable says, or beside the clone.
DIRECTORY = Path(os.environ.get(VARIABLE) or Path(__file__).parents[3] / "shared" / "data")


def folder(name: str) -> Path:
    """Returns the folder of a data set's raw files; skips the test where there is none."""
    if not (DIRECTORY / name).is_dir():
        pytest.skip(f"no raw files {name}/ in {DIRECTORY}; {VARIABLE} names another directory")
    return DIRECTORY / name
