"""The configuration of an earlier run, as an experiment file.

--config=runs/mine/config.json    which the command line reads as
--config=bahdanau_jax/recorded.py:runs/mine/config.json
"""

from pathlib import Path

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import from_json

PREFIX = f"{Path(__file__)}:"


def get_config(path: str) -> Config:
    """Reads a workdir's `config.json`.

    Args:
      path: the file.

    Raises:
      InputError: it can't be read, or isn't a configuration.
    """
    try:
        return from_json(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"--config: there is no file {path!r}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--config: {path} can't be read ({type(error).__name__})") from error
    except InputError as error:
        raise InputError(f"--config: {path}: {error}") from error


def default_workdir(config: str) -> Path:
    """Returns where a run belongs whose `--workdir` isn't given.

    Args:
      config: the value of `--config`, as the command line reads it.

    Returns:
      `runs/` and the experiment file's name; of a recorded configuration, where it was recorded.
    """
    if config.startswith(PREFIX):
        return Path(config.removeprefix(PREFIX)).parent
    return Path("runs") / Path(config.partition(":")[0]).stem
