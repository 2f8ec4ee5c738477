"""What can be known to be wrong before JAX is imported; no flag or field is ignored silently."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bahdanau_jax.cli.command_line import CommandLine
from bahdanau_jax.cli.flags import FLAGS
from bahdanau_jax.config import Config
from bahdanau_jax.effects import ineffective, refuse_ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import Value, text_of, value_of, with_values
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.selection import Selection, parse_selection

# What ranks hypotheses, and so does nothing where there is one.
RANKING = ("decode.length_penalty", "decode.length_penalty_alpha", "decode.coverage_penalty")

# The one field of `evaluation` that another evaluation of the same outputs may set otherwise.
TOKENIZE = "evaluation.tokenize"


class Task(NamedTuple):
    """What a mode works with, beside its own flags.

    Attributes:
      config: of a run that is to be trained or explained; of no other mode.
      checkpoint: of a trained run.
      settings: fields of the configuration, by path, that replace those of a trained run.
    """

    config: Config | None = None
    checkpoint: Selection = "best"
    settings: dict[str, Value] = {}  # noqa: RUF012 (nobody changes it)


def check(line: CommandLine) -> Task:
    """Checks the fields that a command line gives, and says what its mode works with.

    Args:
      line: of any mode, without a sweep.

    Raises:
      InputError: the configuration can't work, or a field that was given changes nothing.
    """
    if line.mode in ("train", "explain"):
        config = line.config()
        validate(config)
        refuse_ineffective(config, line.fields)
        check_seed(line, config, line.fields)
        return Task(config)
    if line.mode == "compare":
        for path in line.fields:
            raise InputError(f"--mode=compare reads finished runs; leave out --config.{path}")
        return Task()
    checkpoint = parse_selection(line.values["checkpoint"])
    return Task(None, checkpoint, _settings(line))


def check_seed(line: CommandLine, config: Config, given: Iterable[str]) -> None:
    """Raises InputError if a seed is given that nothing is drawn from."""
    # A tuner's sampler begins from it too.
    drawn = line.values["tune"] or not line.values["init_from"]
    if "seed" in given and not (drawn or any(vars(config.train.dropout).values())):
        raise InputError(
            "seed has no effect: --init_from gives the first parameters, and train.dropout is 0; "
            "set data.seed for another order of the examples"
        )


def check_given(line: CommandLine, configs: Sequence[Config], swept: Iterable[str]) -> None:
    """Checks the fields that the cells of a sweep share, and the ones that tell them apart.

    Args:
      line: of the sweep.
      configs: of its cells, all valid.
      swept: the fields that differ.

    Raises:
      InputError: a field is both given and swept, or changes nothing in any of the cells.
    """
    swept = tuple(swept)
    for path in line.fields:
        if path in swept:
            raise InputError(f"{path} is given by --config.{path} and swept; leave one out")
    for path in (*line.fields, *swept):
        if all(path in ineffective(config) for config in configs):
            refuse_ineffective(configs[0], [path])
    for config in configs:
        check_seed(line, config, (*line.fields, *swept))


def _settings(line: CommandLine) -> dict[str, Value]:
    """Returns what the command line sets of a run that is trained, by path."""
    given: dict[str, Value] = {}
    for path, value in line.fields.items():
        read = path.startswith("decode.") or (path == TOKENIZE and line.mode == "evaluate")
        if not read:
            others = f" and {TOKENIZE}" if line.mode == "evaluate" else ""
            raise InputError(
                "this mode takes the configuration from the workdir, all but its fields decode.…"
                f"{others}; leave out --config.{path}={text_of(value)}"
            )
        if line.mode in ("score", "align") and path != "decode.batch_size":
            raise InputError(
                f"--mode={line.mode} searches for no output, so that {path} has no effect; leave "
                f"out --config.{path}"
            )
        given[path] = value
    for flag in FLAGS:
        if flag.field and flag.name in line.given:
            if flag.field in given:
                raise InputError(f"--{flag.name} and --config.{flag.field} are the same; give one")
            given[flag.field] = line.values[flag.name]
    if given or line.values["replace_unk"]:
        _check_decoding(line, with_values(workdir.read_config(line.directory), given), given)
    return given


def _check_decoding(line: CommandLine, config: Config, given: Iterable[str]) -> None:
    validate(config)
    refuse_ineffective(config, given)
    # A prefix may hold unknown words, which are never suppressed.
    if line.values["replace_unk"] and config.decode.suppress_unk and not line.values["prefixes"]:
        raise InputError(
            "--replace_unk has no effect: decode.suppress_unk=true chooses no unknown word; leave "
            "it out, or give --suppress_unk=false"
        )
    single = config.decode.beam_size == 1 or config.decode.temperature > 0
    for path in given:
        if path in RANKING and single and line.values["nbest"] == 0:
            raise InputError(
                f"{path}={text_of(value_of(config, path))} has no effect: there is one hypothesis "
                "a line, and nothing to rank; raise --beam_size"
            )
