"""From a command line to parsed flags: every mistake in it gets one line that names the fix."""

import re
import runpy
import traceback
from pathlib import Path

from absl import flags

from bahdanau_jax import config as config_lib
from bahdanau_jax import fields as fields_lib
from bahdanau_jax.cli.recorded import PREFIX
from bahdanau_jax.errors import InputError

# What Python says of a value, in words for people.
_WORDS = {
    r"invalid literal for int\(\) with base \d+: (.*)": r"\1 is no whole number",
    r"could not convert string to float: (.*)": r"\1 is no number",
}


def parse_flags(argv: list[str], arguments: list[str], default: Path) -> list[str]:
    """Parses the command line; turns every complaint into an InputError of one line.

    Args:
      argv: the program's name and its arguments.
      arguments: the list in which config_flags looks for fields; it receives what is parsed.
      default: the experiment file where `--config` isn't given.

    Returns:
      The program's name and the arguments that are no flags.

    Raises:
      InputError: a flag, a field or an experiment file is wrong.
    """
    try:
        argv = flags.FLAGS.read_flags_from_files(argv, force_gnu=False)
        _check_fields(argv)
        experiments = _values("config", argv)
        if not experiments:
            # Not the flag's default, which would be read while this file is imported.
            experiments = [str(default)]
            argv = [argv[0], f"--config={default}", *argv[1:]]
        argv = [_recorded(argument) for argument in argv]
        for experiment in _values("config", argv):
            _check_experiment(experiment)
        arguments[:] = argv
        return flags.FLAGS(argv)
    except flags.Error as error:
        text = " ".join(str(error).split())
        for python, words in _WORDS.items():
            text = re.sub(python, words, text)
        raise InputError(text) from error


def _check_fields(argv: list[str]) -> None:
    """Looks for flags of fields that don't exist, of which config_flags only names a part."""
    fields = fields_lib.field_paths()
    for argument in argv[1:]:
        flag = argument.lstrip("-").partition("=")[0]
        field = flag.removeprefix("no").removeprefix("config.")
        if not argument.startswith("-") or not flag.removeprefix("no").startswith("config."):
            continue
        within = [path for path in fields if path.startswith(f"{field}.")]
        if within:
            raise InputError(f"{field} is a group of fields; set one, as --config.{within[0]}=…")
        if field not in fields:
            raise InputError(fields_lib.unknown_field(field))


def _values(name: str, argv: list[str]) -> list[str]:
    """Returns the values that a flag is given, as `--name=value` or `--name value`."""
    values = []
    for number, argument in enumerate(argv[1:], 2):
        if argument in (f"-{name}", f"--{name}"):
            values += argv[number : number + 1]
        elif argument.startswith((f"-{name}=", f"--{name}=")):
            values.append(argument.partition("=")[2])
    return values


def _recorded(argument: str) -> str:
    """Turns `--config=W/config.json` into the experiment file that reads it."""
    name, equals, value = argument.partition("=")
    if equals and name.lstrip("-") == "config" and value.endswith(".json") and ":" not in value:
        return f"{name}={PREFIX}{value}"
    return argument


def _check_experiment(value: str) -> None:
    """Loads an experiment file once by itself: config_flags hides what is wrong with it."""
    path, colon, argument = value.partition(":")
    if not Path(path).is_file():
        raise InputError(
            f"--config: there is no file {path!r}; give an experiment, as "
            "--config=experiments/cmudict.py"
        )
    try:
        get_config = runpy.run_path(path).get("get_config")
        if not callable(get_config):
            raise InputError(f"--config: {path} defines no get_config()")
        config = get_config(*[argument] * len(colon))
    except InputError:
        raise
    except Exception as error:
        # Whatever its own code raises is about this file, and has a line in it.
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        what = " ".join(str(error).split())
        if isinstance(error, SyntaxError) and error.filename == path:
            lines, what = [error.lineno], error.msg
        place = f", line {lines[-1]}" if lines else ""
        raise InputError(f"--config: {path}{place}: {type(error).__name__}: {what}") from error
    if not isinstance(config, config_lib.Config):
        raise InputError(
            f"--config: get_config() in {path} must return a bahdanau_jax.config.Config; it "
            f"returns {type(config).__name__}"
        )
