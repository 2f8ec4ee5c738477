"""How a run was started, each time: command, versions, devices, commit, fingerprints of data."""

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import __version__, fields
from bahdanau_jax.config import Config
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.workdir.metrics_log import to_json

MANIFEST = "manifest.json"
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def write_manifest(
    workdir: str | os.PathLike[str],
    config: Config,
    *,
    overrides: Sequence[str],
    fingerprints: Mapping[str, str],
    step: int = 0,
    origin: Mapping[str, Any] | None = None,
) -> None:
    """Adds one start to the list in `manifest.json`; what earlier starts wrote stays.

    Args:
      workdir: the run's directory, which exists.
      config: the configuration of this start.
      overrides: the fields given by flags, as `model.attention.score=dot`.
      fingerprints: of the data and of the vocabularies, by name.
      step: updates done before this start, 0 for a new run.
      origin: the run whose parameters this one begins with, and their step; None: none.

    Raises:
      InputError: there is a `manifest.json` that can't be read.
    """
    starts = read_starts(workdir)
    start = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": step,
        "command": list(sys.argv),
        "overrides": list(overrides),
        "git": git_state(Path(__file__).parent),
        "versions": versions(),
        "devices": devices(),
        "fingerprints": dict(fingerprints),
        "changed": fields.differences(starts[-1]["config"], config) if starts else {},
        "init_from": origin,
        "config": fields.to_dict(config),
    }
    write_atomically(Path(workdir) / MANIFEST, to_json({"starts": [*starts, start]}))


def read_starts(workdir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the starts that `manifest.json` lists, the first one first; none without the file.

    Args:
      workdir: the run's directory.

    Raises:
      InputError: there is a `manifest.json` that can't be read.
    """
    path = Path(workdir) / MANIFEST
    if not path.exists():
        return []
    try:
        starts = json.loads(path.read_text(encoding="utf-8"))["starts"]
        return [start for start in starts if start["fingerprints"] | start["config"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: can't be read ({type(error).__name__}); move it away and start again"
        ) from error


def check_fingerprints(workdir: str | os.PathLike[str], fingerprints: Mapping[str, str]) -> None:
    """Checks that a run's data and vocabularies are still those that its starts have recorded.

    Args:
      workdir: the run's directory; one without a manifest has nothing to compare with.
      fingerprints: by name, as from `Data.fingerprints`; a name that no start has recorded, as
        that of a test set which came later, is passed over.

    Raises:
      InputError: one differs, and what to do; or the manifest can't be read.
    """
    recorded: dict[str, str] = {}
    for start in read_starts(workdir):
        recorded |= start["fingerprints"]
    for name, now in fingerprints.items():
        before = recorded.get(name, now)
        if before != now:
            what = "the vocabulary"
            if name.startswith("data/"):
                what = f"the text of the split {name.removeprefix('data/')}"
            raise InputError(
                f"{workdir}: {what} isn't what this run was trained with (fingerprint {before} "
                f"then, {now} now); bring it back, or train anew with another --workdir"
            )


def git_state(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Says which commit the code in `directory` is at.

    Args:
      directory: a directory of source files.

    Returns:
      `{"commit": 40 hexadecimal digits, "dirty": whether a tracked file differs from it}`, or
      None where git doesn't track the directory or isn't there.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", os.fspath(directory), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # A package installed somewhere inside another project's checkout isn't at its commit.
        if not git("ls-files", "."):
            return None
        commit = git("rev-parse", "HEAD")
        return {"commit": commit, "dirty": bool(git("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def versions() -> dict[str, str]:
    """Returns the versions of Python, this package and the libraries that decide the figures."""
    ours = {"python": platform.python_version(), "bahdanau_jax": __version__}
    return ours | {name: importlib.metadata.version(name) for name in LIBRARIES}


def devices() -> dict[str, Any]:
    """Returns platform, kind and number of the devices, over all processes."""
    import jax  # here, so that reading a workdir's figures doesn't need it

    every = jax.devices()
    return {
        "platform": every[0].platform,
        "kind": every[0].device_kind,
        "count": len(every),
        "processes": jax.process_count(),
    }
