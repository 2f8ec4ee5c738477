"""How a run was started, each time: command, experiment, versions, devices, commit, fingerprints.

The text of the experiment file is kept beside it: the file may change, and git may not know it.
"""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax import __version__, fields
from bahdanau_jax.config import Config
from bahdanau_jax.durable import digest, without_checksum, write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import read_json
from bahdanau_jax.workdir import directory
from bahdanau_jax.workdir.metrics_log import to_json

MANIFEST = "manifest.json"
SAVED = "saved"  # in a start: the step of its first checkpoint
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def write_manifest(
    workdir: str | os.PathLike[str],
    config: Config,
    *,
    overrides: Sequence[str],
    fingerprints: Mapping[str, str],
    step: int = 0,
    origin: Mapping[str, Any] | None = None,
    experiment: Path | None = None,
    run: Mapping[str, str] | None = None,
) -> None:
    """Adds one start to the list in `manifest.json`; what earlier starts wrote stays.

    Args:
      workdir: the run's directory, which exists.
      config: the configuration of this start.
      overrides: the fields given by flags, as `model.attention.score=dot`.
      fingerprints: of the data and of the vocabularies, by name.
      step: updates done before this start, 0 for a new run.
      origin: the run whose parameters this one begins with, and their step; None: none.
      experiment: the Python file that made the configuration; None: there is none.
      run: which run the checkpoints say that this is, for a workdir that has lost its manifest.

    Raises:
      InputError: there is a `manifest.json` that can't be read, or the experiment can't.
    """
    starts = read_starts(workdir)
    identity = identify(workdir) if run is None else {**run, **identify(workdir)}
    identity.setdefault("id", uuid.uuid4().hex[:16])
    start = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "step": step,
        "command": list(sys.argv),
        "overrides": list(overrides),
        "experiment": None if experiment is None else _keep(Path(workdir), experiment),
        "git": git_state(Path(__file__).parent, experiment),
        "versions": versions(),
        "devices": devices(),
        "fingerprints": dict(fingerprints),
        "changed": fields.differences(starts[-1]["config"], config) if starts else {},
        "init_from": origin,
        "config": fields.to_dict(config),
    }
    _write(workdir, identity, [*starts, start])


def note_saved(workdir: str | os.PathLike[str], step: int) -> None:
    """Notes that the last start has saved a checkpoint, so that it is missed if it gets lost.

    Args:
      workdir: the run's directory.
      step: of the checkpoint.
    """
    with contextlib.suppress(OSError, InputError):  # the checkpoint is there all the same
        recorded, starts = _read(workdir)
        if starts and SAVED not in starts[-1]:
            starts[-1][SAVED] = step
            _write(workdir, recorded, starts)


def _write(
    workdir: str | os.PathLike[str], run: Mapping[str, str], starts: Sequence[Mapping[str, Any]]
) -> None:
    written = {"run": run, "starts": starts}
    write_atomically(Path(workdir) / MANIFEST, to_json(written, checksum=True))


def identify(workdir: str | os.PathLike[str]) -> dict[str, str]:
    """Says which run a workdir holds, after checking that its configuration is the run's own.

    Args:
      workdir: the run's directory.

    Returns:
      `config`, a digest of what config.json says, if there is one; `id`, drawn at the first start,
      if the manifest has it: older versions didn't write it.

    Raises:
      InputError: config.json isn't what the run was begun with; names the fields that differ.
    """
    recorded, starts = _read(workdir)
    if not isinstance(recorded, dict):
        raise InputError(f"{Path(workdir) / MANIFEST}: names no run; bring it back")
    path = Path(workdir) / directory.CONFIG
    if not path.exists():
        return recorded
    try:
        values = read_json(path)
    except (OSError, ValueError):
        directory.read_config(workdir)  # says what is wrong with it
        raise
    now = digest(json.dumps(values, sort_keys=True).encode())
    if recorded.get("config", now) != now:
        changed = fields.differences(starts[0]["config"], directory.read_config(workdir))
        named = [f"{field} was {old!r} and is {new!r}" for field, (old, new) in changed.items()]
        what = "; ".join(named) or "its text differs"
        raise InputError(
            f"{path} isn't what this run was begun with ({what}); "
            "bring it back, or begin anew with --restart, which moves all of it aside"
        )
    return {**recorded, "config": now}


def read_starts(workdir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the starts that `manifest.json` lists, the first one first; none without the file.

    Args:
      workdir: the run's directory.

    Raises:
      InputError: there is a `manifest.json` that can't be read.
    """
    return _read(workdir)[1]


def _read(workdir: str | os.PathLike[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Returns what the manifest says of the run, and of its starts; nothing without the file."""
    path = Path(workdir) / MANIFEST
    if not path.exists():
        return {}, []
    try:
        known = without_checksum(read_json(path))
        starts = [start for start in known["starts"] if start["fingerprints"] | start["config"]]
        return known.get("run", {}) if starts else {}, starts
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
            what = "the file of data.train_links" if name == "links" else "the vocabulary"
            if name.startswith("data/"):
                what = f"the text of the split {name.removeprefix('data/')}"
            raise InputError(
                f"{workdir}: {what} isn't what this run was trained with (fingerprint {before} "
                f"then, {now} now); bring it back, or train anew with another --workdir"
            )


def _keep(workdir: Path, experiment: Path) -> dict[str, str]:
    """Keeps an experiment's text in a workdir, each different text once; returns where."""
    try:
        text = experiment.read_bytes()
    except OSError as error:
        raise InputError(f"{experiment}: can't be read ({error.strerror})") from error
    name = f"experiment-{digest(text)[:8]}.py"
    write_atomically(workdir / name, text)
    return {"path": os.fspath(experiment), "kept": name}


def git_state(
    folder: str | os.PathLike[str], experiment: Path | None = None
) -> dict[str, Any] | None:
    """Says which commit the code in `folder` is at.

    Args:
      folder: of source files.
      experiment: the file that made the configuration, if there is one.

    Returns:
      `{"commit": 40 hexadecimal digits, "dirty": whether the commit isn't all that ran}`, or None
      where git doesn't track the directory or isn't there. It isn't if a tracked file differs from
      it, if a module that this process has imported from the checkout isn't tracked, or if the
      experiment isn't, wherever it is.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", os.fspath(folder), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # A package installed somewhere inside another project's checkout isn't at its commit.
        if not git("ls-files", "."):
            return None
        commit, top = git("rev-parse", "HEAD"), Path(git("rev-parse", "--show-toplevel"))
        modules = _modules_below(top)
        dirty = bool(git("status", "--porcelain", "-uno"))
        dirty = dirty or bool(
            modules and git("ls-files", "--others", "--exclude-standard", "--", *modules)
        )
        return {"commit": commit, "dirty": dirty or not _tracks(git, experiment)}
    except (OSError, subprocess.CalledProcessError):
        return None


def _modules_below(top: Path) -> list[str]:
    """Returns the files of the modules that were imported from a checkout."""
    files = [Path(f) for m in list(sys.modules.values()) if (f := getattr(m, "__file__", None))]
    return sorted(
        str(path)
        for path in files
        if path.is_relative_to(top) and "site-packages" not in path.parts
    )


def _tracks(git: Callable[..., str], experiment: Path | None) -> bool:
    if experiment is None:
        return True
    try:
        git("ls-files", "--error-unmatch", "--", os.path.abspath(experiment))
    except subprocess.CalledProcessError:
        return False  # of no commit, or outside the checkout
    return True


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
