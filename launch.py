"""The command line: flags to a checked configuration, then one mode.

python launch.py                                                    train the default experiment
python launch.py --config=experiments/cmudict.py --workdir=W        train another, or go on
python launch.py --mode=evaluate  --workdir=W --split=test          figures of a split
python launch.py --mode=translate --workdir=W < in.txt > out.txt    one output a line
"""

import logging
import sys
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from bahdanau_jax import config as config_lib
from bahdanau_jax.errors import InputError
from bahdanau_jax.validation import validate

MODES = ("train", "evaluate", "translate")
DEFAULT = Path(__file__).parent / "experiments" / "cmudict.py"

_CONFIG = config_flags.DEFINE_config_file(
    "config", str(DEFAULT), "Experiment file; its fields are flags, as --config.seed=1."
)
_MODE = flags.DEFINE_enum("mode", "train", MODES, "What to do.")
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Directory of the run; training makes it. Default: runs/ and the file's name."
)
_SPLIT = flags.DEFINE_string("split", "test", "evaluate: dev, test, or a test split's own name.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", "best", "All modes but train: best, latest, or a number of steps."
)


def main(argv: list[str]) -> None:
    """Runs the mode that the flags name."""
    if len(argv) > 1:
        raise InputError(f"unexpected argument {argv[1]!r}; flags begin with --")
    _configure_jax()
    directory = Path(_WORKDIR.value or Path("runs") / _experiment())
    # Imported here, so that a wrong flag is answered at once.
    if _MODE.value == "train":
        from bahdanau_jax.train import train

        config = _CONFIG.value
        validate(config)
        train(config, directory, _overrides())
        return
    from bahdanau_jax.progress import say
    from bahdanau_jax.run import open_run, open_run_data

    run = open_run(directory, _checkpoint())
    if _MODE.value == "evaluate":
        from bahdanau_jax import results

        split = open_run_data(directory, run.config, say).evaluation_split(_SPLIT.value)
        figures, _ = results.evaluate_split(run, directory, split)
        results.print_figures(split.name, figures)
    else:
        from bahdanau_jax.translation import translate

        translate(run, sys.stdin.buffer, sys.stdout)


def _configure_jax() -> None:
    """Keeps compiled programs from one start to the next, in the user's cache directory."""
    import jax

    from bahdanau_jax.data import cache_directory

    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _experiment() -> str:
    return Path(config_flags.get_config_filename(flags.FLAGS["config"])).stem


def _overrides() -> list[str]:
    values = config_flags.get_override_values(flags.FLAGS["config"])
    return [f"{name}={value}" for name, value in values.items()]


def _checkpoint():
    value = _CHECKPOINT.value
    if value in ("best", "latest"):
        return value
    if value.isdecimal():
        return int(value)
    raise InputError(f"--checkpoint must be best, latest or a number of steps; it is {value!r}")


def parse_flags(argv: list[str]) -> list[str]:
    """Parses the command line; turns every complaint into an InputError of one line."""
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        raise InputError(" ".join(str(error).split())) from error
    except (KeyError, AttributeError) as error:
        raise InputError(_field_error(argv, error)) from error
    except OSError as error:
        raise InputError(f"--config: {error.strerror}: {error.filename}") from error


def _field_error(argv: list[str], error: Exception) -> str:
    """Finds the flag that names no field; config_flags says only which part it didn't find."""
    known = set(config_lib.field_paths())
    for argument in argv[1:]:
        name = argument.lstrip("-").split("=")[0].removeprefix("no")
        if name.startswith("config.") and name.removeprefix("config.") not in known:
            return config_lib.unknown_field(name.removeprefix("config."))
    return str(error)


def run(argv: list[str]) -> int:
    """Runs the program; returns its exit status."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    try:
        main(parse_flags(argv))
    except InputError as error:
        print(f"launch.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "launch.py: interrupted; the same command goes on from the last checkpoint",
            file=sys.stderr,
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv))
