"""Counts the files of the program that a training run and a translation cross.

    python tests/support/files_crossed.py

A file is crossed if one of its functions runs, in whatever thread, while JAX traces included; that
it is imported doesn't count. Training counts from the start of launch.py until the first update is
launched, translation from its start to its end, for one line.
"""

import contextlib
import inspect
import io
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPERIMENT = """import sys
sys.path.append({support!r})
import tiny
def get_config():
    config = tiny.config(tiny.write_corpus(__import__("pathlib").Path("corpus")))
    config.train.epochs, config.train.steps, config.train.warmup_steps = 0, 2, 1
    return config
"""
TRAIN = ("--config=spelling.py", "--workdir=run")
TRANSLATE = ("--mode=translate", "--workdir=run", "--input=in.txt", "--output=out.txt")


class Crossed:
    """Notes the files whose functions are called, in every thread."""

    def __init__(self, until: tuple[str, str] | None):
        """Ends the notes at the call of the second function after one of the first, by name."""
        self.files: set[str] = set()
        self._until, self._over = list(until or ()), False

    def __call__(self, frame, event: str, _: object) -> None:
        """Is told of every call by `sys.setprofile`."""
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if event != "call" or not path.startswith(str(ROOT)) or name.startswith("<"):
            return
        place = Path(path).relative_to(ROOT).as_posix()
        of_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # not of a module or a class
        if self._over or not place.startswith("bahdanau_jax/") or not of_function:
            return
        self.files.add(place)
        if self._until[:1] == [name]:
            self._until.pop(0)
            self._over = not self._until


def crossed(arguments: tuple[str, ...], until: tuple[str, str] | None) -> set[str]:
    """Runs launch.py in this process; returns the files, launch.py among them."""
    notes = Crossed(until)
    sys.argv = ["launch.py", *arguments]
    threading.setprofile(notes)
    sys.setprofile(notes)
    try:
        runpy.run_path(str(ROOT / "launch.py"), run_name="__main__")
    except SystemExit as end:
        assert not end.code, end.code
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return notes.files | {"launch.py"}


def main() -> None:
    """Prints both counts, and the files."""
    if sys.argv[1:]:
        (what,) = sys.argv[1:]
        # A batch is taken, the step is launched, the figures of the step before are settled.
        ways = {"training": (TRAIN, ("batch", "_settle")), "translation": (TRANSLATE, None)}
        with contextlib.redirect_stdout(io.StringIO()):
            files = crossed(*ways[what])
        print(f"{what}: {len(files)} files", *sorted(files), sep="\n  ")
        return
    with tempfile.TemporaryDirectory() as scratch:
        support = str(Path(__file__).parent)
        (Path(scratch) / "spelling.py").write_text(EXPERIMENT.format(support=support))
        (Path(scratch) / "in.txt").write_text("fed\n")
        for what in ("training", "translation"):
            subprocess.run(
                [sys.executable, __file__, what],
                cwd=scratch,
                env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
                check=True,
            )


if __name__ == "__main__":
    main()
