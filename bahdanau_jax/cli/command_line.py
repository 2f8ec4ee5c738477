"""From a command line to what it asks for: every mistake in it gets one line that names the fix."""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags as absl_flags

from bahdanau_jax.cli.experiment import Experiment
from bahdanau_jax.cli.flags import FLAGS, Flag, refuse_ignored
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.fields import (
    Value,
    field_paths,
    field_type,
    parse_value,
    resolve,
    text_of,
    with_values,
)

# What Python says of a value, in words for people.
_WORDS = {
    r"invalid literal for int\(\) with base \d+: (.*)": r"\1 is no whole number",
    r"could not convert string to float: (.*)": r"\1 is no number",
}


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A command line that is right as far as it can be known without a run or data.

    Attributes:
      values: of every flag of the table, given or not.
      given: the names of those that were given, in the table's order.
      fields: the fields of the configuration that were given, by path, in their order.
      experiment: what `--config` names.
    """

    values: Mapping[str, Any]
    given: tuple[str, ...]
    fields: Mapping[str, Value]
    experiment: Experiment

    @property
    def mode(self) -> str:
        """What is to be done."""
        return self.values["mode"]

    @property
    def directory(self) -> Path:
        """The workdir."""
        return Path(self.values["workdir"] or self.experiment.workdir)

    def config(self) -> Config:
        """Returns the experiment's configuration with the given fields in it, not validated."""
        return with_values(self.experiment.config(), self.fields)

    def overrides(self) -> list[str]:
        """Returns the given fields as a manifest has them."""
        return [f"{path}={value}" for path, value in self.fields.items()]

    def handed_on(self) -> list[str]:
        """Returns the arguments that a sweep hands on to its cells: all but its own."""
        kept = [flag for flag in FLAGS if flag.name in self.given and not flag.of_sweep]
        return [
            *(f"--{flag.name}={text_of(self.values[flag.name])}" for flag in kept),
            *(f"--config.{path}={text_of(value)}" for path, value in self.fields.items()),
        ]


def parse(argv: Sequence[str]) -> CommandLine:
    """Parses a command line; imports neither JAX nor an experiment.

    Args:
      argv: the program's name and its arguments.

    Raises:
      InputError: a flag or a field doesn't exist or has no such value, would be ignored, or is
        given twice; or `--config` names no file.
    """
    parsed = absl_flags.FlagValues()
    for flag in FLAGS:
        _define(flag, parsed)
    for path in field_paths():
        _define_field(path, parsed)
    try:
        arguments = parsed.read_flags_from_files(list(argv[1:]), force_gnu=False)
        for argument in arguments:
            if any("\ud800" <= character <= "\udfff" for character in argument):
                raise InputError(f"{argument!a} isn't UTF-8; rename what it names")
        arguments = [_in_full(argument) for argument in arguments]
        names = [text.lstrip("-").partition("=")[0].removeprefix("no") for text in arguments]
        if "undefok" in names:
            raise InputError("--undefok would hide a flag that is misspelt; leave it out")
        rest = parsed([argv[0], *arguments])[1:]
    except (absl_flags.Error, ValueError) as error:
        text = flat(error)
        for python, words in _WORDS.items():
            text = re.sub(python, words, text)
        raise InputError(text) from error
    if rest:
        raise InputError(f"unexpected argument {rest[0]!r}; flags begin with --")
    values: dict[str, Any] = {flag.name: parsed[flag.name].value for flag in FLAGS}
    given = tuple(flag.name for flag in FLAGS if parsed[flag.name].present)
    for name in given:
        if isinstance(values[name], float) and not math.isfinite(values[name]):
            raise InputError(f"--{name} must be a number that is finite; it is {values[name]}")
    refuse_ignored(values, given)
    if {"config", "workdir"} <= {*given} and values["mode"] not in ("train", "explain"):
        raise InputError(
            f"--mode={values['mode']} reads the run in --workdir alone; leave out --config"
        )
    paths = [name.removeprefix("config.") for name in names if name.startswith("config.")]
    fields: dict[str, Any] = {path: parsed[f"config.{path}"].value for path in paths}
    return CommandLine(values, given, fields, Experiment(values["config"]))


def _define(flag: Flag, into: absl_flags.FlagValues) -> None:
    """Defines one of the table's flags; given twice it is refused, unless it may be repeated."""
    name, text, default = flag.name, flag.help, flag.default
    once: dict[str, Any] = {"flag_values": into, "allow_overwrite": False}
    if flag.choices:
        absl_flags.DEFINE_enum(name, default, flag.choices, text, **once)
    elif flag.kind is tuple:
        absl_flags.DEFINE_multi_string(name, [], text, flag_values=into)
    elif flag.kind is list:
        absl_flags.DEFINE_list(name, list(default), text, **once)
    elif flag.kind is bool:
        absl_flags.DEFINE_bool(name, default, text, **once)
    elif flag.kind is str:
        absl_flags.DEFINE_string(name, default, text, **once)
    else:
        define = absl_flags.DEFINE_integer if flag.kind is int else absl_flags.DEFINE_float
        define(name, default, text, flag.least, flag.most, **once)  # pyright: ignore


class _FieldParser(absl_flags.ArgumentParser):
    """Reads a field's value as `--sweep` does."""

    def __init__(self, path: str):
        self._path = path

    def parse(self, argument: str) -> Value:
        """Returns the value; raises InputError if it isn't one of the field's type."""
        return parse_value(argument, self._path, f"--config.{self._path}={argument}")


def _define_field(path: str, into: absl_flags.FlagValues) -> None:
    name = f"config.{path}"
    once: dict[str, Any] = {"flag_values": into, "allow_overwrite": False}
    if field_type(path) is bool:
        absl_flags.DEFINE_bool(name, None, path, **once)
    else:
        absl_flags.DEFINE(_FieldParser(path), name, None, path, **once)


def _in_full(argument: str) -> str:
    """Returns `--config.score=dot` as `--config.model.attention.score=dot`; others as they are.

    Raises:
      InputError: there is no such field, or there are several.
    """
    name, equals, value = argument.partition("=")
    dashes = name[: len(name) - len(name.lstrip("-"))]
    bare = name.lstrip("-")
    no = "no" if bare.startswith("noconfig.") else ""
    if not dashes or not bare.removeprefix(no).startswith("config."):
        return argument
    field = bare.removeprefix(no).removeprefix("config.")
    within = [path for path in field_paths() if path.startswith(f"{field}.")]
    if within:
        raise InputError(f"{field} is a group of fields; set one, as --config.{within[0]}=…")
    return f"{dashes}{no}config.{resolve(field, '--config')}{equals}{value}"
