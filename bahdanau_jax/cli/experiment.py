"""What `--config` names: an experiment file, an installed experiment, or a recorded configuration.

--config=experiments/cmudict.py         Python, whose get_config() is called
--config=cmudict                        the installed experiment of this name
--config=mine.py:argument               get_config("argument")
--config=runs/mine/config.json          of an earlier run; read as JSON and never executed

Only a file whose name ends in .py is ever executed; any other is JSON, or refused.
"""

import functools
import runpy
import traceback
from pathlib import Path
from typing import Any

import bahdanau_jax
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.fields import from_json
from bahdanau_jax.stored_files import read_text

# Beside the package in a checkout, and where pip installs it.
INSTALLED = Path(bahdanau_jax.__file__).parents[1] / "experiments"


class Experiment:
    """A configuration's origin; nothing of it is read or executed before it is asked for.

    Attributes:
      path: the file.
      argument: what get_config() gets; None: nothing.
    """

    def __init__(self, text: str):
        """Finds the file.

        Args:
          text: as behind `--config=`.

        Raises:
          InputError: there is no such file, or an argument for what takes none.
        """
        whole = _resolve(text)
        name, colon, argument = text.rpartition(":")
        path = whole or _resolve(name)
        if path is None:
            raise InputError(
                f"--config: there is no file {(name or text)!r}; give an experiment, as "
                f"--config=experiments/cmudict.py, or the name of an installed one: {_names()}"
            )
        self.path, self.argument = path, argument if colon and whole is None else None
        if self.is_recorded and self.argument:
            raise InputError(f"--config: {path} takes no argument; leave out :{argument}")

    @property
    def is_recorded(self) -> bool:
        """Whether it is the configuration of an earlier run."""
        return self.path.suffix != ".py"

    @property
    def source(self) -> Path | None:
        """The Python file; None where a recorded configuration is read."""
        return None if self.is_recorded else self.path

    @property
    def workdir(self) -> Path:
        """Where a run of it belongs: `runs/` and its name; if recorded, where it was recorded."""
        return self.path.parent if self.is_recorded else Path("runs") / self.path.stem

    @property
    def sweeps(self) -> dict[str, Any]:
        """What the file offers by name, in `SWEEPS`."""
        return {} if self.is_recorded else self._namespace.get("SWEEPS", {})

    @property
    def header(self) -> str:
        """The file's docstring; empty where there is none, and of a recorded configuration."""
        return "" if self.is_recorded else self._namespace.get("__doc__") or ""

    def config(self) -> Config:
        """Returns a new configuration, not yet validated.

        Raises:
          InputError: the file can't be read, fails, or gives no configuration.
        """
        if self.is_recorded:
            return self._read()
        get_config = self._namespace.get("get_config")
        if not callable(get_config):
            raise InputError(f"--config: {self.path} defines no get_config()")
        arguments = [] if self.argument is None else [self.argument]
        config = self._call(lambda: get_config(*arguments))
        if not isinstance(config, Config):
            raise InputError(
                f"--config: get_config() in {self.path} must return a bahdanau_jax.config.Config; "
                f"it returns {type(config).__name__}"
            )
        return config

    def _read(self) -> Config:
        try:
            return from_json(read_text(self.path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"--config: {self.path} can't be read ({type(error).__name__})"
            ) from error
        except InputError as error:
            text = f"--config: {self.path}: {error}"
            if not self.path.suffix.lower().startswith(".json"):
                text += "; an experiment's name ends in .py, a run's configuration is config.json"
            raise InputError(text) from error

    @functools.cached_property
    def _namespace(self) -> dict[str, Any]:
        return self._call(lambda: runpy.run_path(str(self.path)))

    def _call(self, code: Any) -> Any:
        """Runs the file's code; whatever it raises is about the file, and has a line in it."""
        try:
            return code()
        except InputError:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(self.path)]
            what = flat(error)
            if isinstance(error, SyntaxError) and error.filename == str(self.path):
                lines, what = [error.lineno], error.msg
            place = f", line {lines[-1]}" if lines else ""
            raise InputError(
                f"--config: {self.path}{place}: {type(error).__name__}: {what}"
            ) from error


def _resolve(text: str) -> Path | None:
    """Returns the file that a name stands for: one that exists, else an installed experiment."""
    if text and Path(text).is_file():
        return Path(text)
    name = Path(text)
    if str(name.parent) in (".", "experiments") and name.suffix in ("", ".py"):
        installed = INSTALLED / f"{name.stem}.py"
        return installed if name.stem and installed.is_file() else None
    return None


def _names() -> str:
    return ", ".join(sorted(path.stem for path in INSTALLED.glob("[!_]*.py")))
