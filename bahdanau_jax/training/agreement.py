"""Whether all processes of a run were started alike; asked before any of them writes or computes.

Each host has its own command line, experiment file and installation. Processes that differ in any
of them would train a model that no single configuration describes, without a sign of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bahdanau_jax
from bahdanau_jax.config import Config
from bahdanau_jax.durable import digest
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import differences, to_dict
from bahdanau_jax.runtime import processes
from bahdanau_jax.workdir import manifest


def check_processes(config: Config, experiment: Path | None, flags: Mapping[str, bool]) -> None:
    """Compares this process's start with that of the first process.

    Args:
      config: of the run.
      experiment: the Python file that made the configuration; None: there is none.
      flags: by name, whether each flag was given that decides what the processes do together.

    Raises:
      InputError: one process was started otherwise; names the process and what differs.
    """
    if processes.count() == 1:
        return
    with processes.together():
        mine = _start(config, experiment, flags)
    first = processes.from_first(mine)
    with processes.together():
        if differing := _differences(first, mine, config):
            raise InputError(
                f"it was started otherwise than process 0: {'; '.join(differing)}; start all "
                "processes with the same command, files and versions"
            )


def _start(config: Config, experiment: Path | None, flags: Mapping[str, bool]) -> dict[str, Any]:
    try:
        text = None if experiment is None else digest(experiment.read_bytes())
    except OSError as error:
        raise InputError(f"{experiment}: can't be read ({error.strerror})") from error
    package = Path(bahdanau_jax.__file__).parent
    sources = [path.read_bytes() for path in sorted(package.rglob("*.py"))]
    return {
        "config": to_dict(config),
        "versions": manifest.versions(),
        "texts": {
            "the experiment file": text,
            "the package's source": digest(b"\0".join(sources)),
        },
        "flags": dict(flags),
    }


def _differences(first: dict[str, Any], mine: dict[str, Any], config: Config) -> list[str]:
    """Returns a phrase for each difference, the fields of the configuration first."""
    fields = [
        f"{path} is {new!r} and {old!r} there"
        for path, (old, new) in differences(first["config"], config).items()
    ]
    versions = [
        f"{name} is {mine['versions'][name]} and {version} there"
        for name, version in first["versions"].items()
        if mine["versions"][name] != version
    ]
    texts = [
        f"{name} has another text"
        for name, text in first["texts"].items()
        if mine["texts"][name] != text
    ]
    flags = [
        f"--{name} is given in one of them only"
        for name, given in first["flags"].items()
        if mine["flags"][name] != given
    ]
    return fields + versions + texts + flags
