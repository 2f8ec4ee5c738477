"""Opening a workdir in which files are pickles, in a process of its own.

Orbax leaves coroutines behind when it meets one, which would be reported in whatever test is next.
"""

import io
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
from launching import SERVER

from bahdanau_jax import durable
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import open_run


class Payload:
    """What runs code in whoever unpickles it: it makes a directory."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


def pickles(marker: Path) -> list[bytes]:
    """Returns a pickle, and a `.npy` file that holds an object."""
    array = io.BytesIO()
    np.save(array, np.array([Payload(marker)], dtype=object), allow_pickle=True)
    return [pickle.dumps(Payload(marker)), array.getvalue()]


def open_with_pickles(workdir: Path, marker: Path) -> list[tuple[str, str]]:
    """Opens a run again and again, each time with another file replaced.

    The checksums of its checkpoint fit what lies there, as a stranger would see to.

    Args:
      workdir: the run's; only its best checkpoint is kept.
      marker: the directory that exists once a payload has run.

    Returns:
      For each file and each pickle, the file's name and the refusal, empty if there was none.
    """
    process = SERVER.Process(target=_open_all, args=(workdir, marker))
    process.start()
    process.join()
    assert process.exitcode == 0
    return [tuple(entry) for entry in json.loads((workdir / "refusals").read_text())]


def _open_all(workdir: Path, marker: Path) -> None:
    shutil.rmtree(workdir / "checkpoints" / "latest")
    checkpoint = next((workdir / "checkpoints" / "best").iterdir())
    skipped = ("outputs", "alignments")
    files = [p for p in sorted(workdir.rglob("*")) if p.is_file() and p.parent.name not in skipped]
    refusals = []
    for path in files:
        content, sums = path.read_bytes(), (checkpoint / durable.CHECKSUMS).read_bytes()
        for bad in pickles(marker):
            path.write_bytes(bad)
            if checkpoint in path.parents and path.name != durable.CHECKSUMS:
                (checkpoint / durable.CHECKSUMS).unlink()
                durable.write_checksums(checkpoint)
            refusal = ""
            try:
                open_run(workdir)
            except InputError as error:
                refusal = str(error)
            refusals.append((path.name, refusal))
            (checkpoint / durable.CHECKSUMS).write_bytes(sums)
        path.write_bytes(content)
    (workdir / "refusals").write_text(json.dumps(refusals))
