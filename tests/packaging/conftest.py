"""This project, installed anew from a copy of its files."""

import shutil
from pathlib import Path

import pytest
from installing import ROOT, Installation, environment, pip

# What a clone doesn't have, and what building there would leave behind.
LEFT_OUT = (".*", "*.egg-info", "__pycache__", "build", "dist", "runs", "venv")


@pytest.fixture(scope="session")
def clone(tmp_path_factory) -> Path:
    """A copy of the project's files, so that nothing of an earlier build gets in."""
    place = tmp_path_factory.mktemp("packaging") / "clone"
    shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (place / "runs").mkdir()
    (place / "runs" / "mine.py").write_text("")  # a user's own, which is nobody else's
    return place


@pytest.fixture(scope="session")
def built(clone) -> Installation:
    """The wheel, installed."""
    wheels = clone.parent / "wheels"
    pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={wheels}", clone, cwd=clone)
    (wheel,) = wheels.glob("*.whl")
    programs = environment(clone.parent / "of_wheel")
    pip(f"--python={programs / 'python'}", "install", "--no-deps", "--no-index", wheel, cwd=wheels)
    return Installation(programs, clone, wheel)


@pytest.fixture(scope="session")
def editable(clone, built) -> Installation:
    """The clone, installed as `pip install -e .` does it."""
    del built  # first, because both build in the clone
    programs = environment(clone.parent / "editable")
    python = f"--python={programs / 'python'}"
    # Its own interpreter builds it, and finds setuptools among this process's packages.
    pip(
        python, "install", "--no-deps", "--no-build-isolation", "--no-index", "-e", clone, cwd=clone
    )
    return Installation(programs, clone, None)
