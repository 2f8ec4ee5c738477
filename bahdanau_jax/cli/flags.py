"""The table of flags: what each is, which modes read it, and what it needs beside it.

From it follow absl's definitions, every refusal of a flag that would be ignored, what a sweep hands
on to its cells, `--help`, and the tables of the documentation.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_type_hints

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import symmetrization

MODES = {
    "train": "trains, or goes on training; evaluates the best checkpoint on every test split",
    "evaluate": "figures of a split, whole and in parts",
    "translate": "one output for each line of a file or of standard input",
    "score": "log-probability (nats) and number of tokens of each given target",
    "align": "links between the words of given pairs, heat maps, and a page to point at",
    "compare": "a sweep's table and report: which configuration is better, and is it noise?",
    "explain": "of each choice where it comes from; parameters, memory and work of a step",
}
ALL = tuple(MODES)


@dataclasses.dataclass(frozen=True)
class Flag:
    """One flag.

    Attributes:
      name: without the dashes.
      kind: str, int, float, bool; list: values with commas between; tuple: may be given repeatedly.
      help: what it does.
      modes: that read it; in the others it is refused.
      default: where it isn't given.
      choices: the allowed values; empty: any of its kind.
      least: the smallest number.
      most: the largest one.
      needs: one of these has to be given too: names, or `NAME=VALUE`.
      excludes: none of these may be given with it, likewise.
      of_sweep: whether it is about a sweep as a whole; all others are handed on to its cells.
      field: the path of the field that it sets.
    """

    name: str
    kind: type
    help: str
    modes: tuple[str, ...] = ALL
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    needs: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    of_sweep: bool = False
    field: str = ""


TRAIN, TRANSLATE, ALIGN = ("train",), ("translate",), ("align",)
TRAINED = ("evaluate", "translate", "score", "align")
_KINDS = get_type_hints(DecodeConfig)


def _decode(name: str, text: str) -> Flag:
    """Returns the short flag of a field of `decode`."""
    field = f"decode.{name}"
    return Flag(
        name,
        _KINDS[name],
        f"{text}. Default: the run's {field}.",
        ("evaluate", "translate"),
        choices=CHOICES.get(field, ()),
        field=field,
    )


def _sweep(name: str, kind: type, text: str, **options: Any) -> Flag:
    return Flag(name, kind, text, TRAIN, of_sweep=True, **options)


FLAGS: tuple[Flag, ...] = (
    Flag("mode", str, "What to do.", default="train", choices=ALL, of_sweep=True),
    Flag(
        "config",
        str,
        "Experiment file, NAME of an installed one, or a run's config.json; FILE:ARGUMENT hands "
        "get_config() an argument. Its fields are flags: --config.seed=1.",
        default="cmudict",
    ),
    Flag(
        "workdir",
        str,
        "Directory of the run or sweep; training makes it. Default: runs/ and the experiment's "
        "name, or where the config.json lies.",
        of_sweep=True,
    ),
    Flag(
        "deterministic",
        bool,
        "Slower programs on GPUs, whose results are the same at each run.",
        tuple(mode for mode in ALL if mode != "compare"),
        default=False,
    ),
    Flag(
        "distributed",
        bool,
        "As one of several processes, found by Slurm, TPU or Kubernetes.",
        TRAIN,
        default=False,
        excludes=("tune", "replicas"),
    ),
    Flag(
        "coordinator",
        str,
        "HOST:PORT of the first process, where nobody else says it.",
        TRAIN,
        needs=("distributed",),
    ),
    Flag("process", int, "This process's number, from 0.", TRAIN, least=0, needs=("distributed",)),
    Flag("processes", int, "How many there are.", TRAIN, least=1, needs=("distributed",)),
    Flag(
        "init_from",
        str,
        "A run's directory; a new run begins with its best parameters.",
        TRAIN,
    ),
    _sweep(
        "restart",
        bool,
        "Begin anew; what the workdir holds is moved aside, to NAME.old-1.",
        default=False,
        excludes=("sweep", "tune", "replicas"),
    ),
    _sweep(
        "sweep",
        tuple,
        "Runs every value: FIELD=v1,v2,… or FIELD=1e-4..1e-2:log5, or @NAME for a sweep of the "
        "experiment file. Given several times: all combinations.",
        excludes=("tune", "replicas"),
    ),
    _sweep(
        "zip",
        bool,
        "Pair the values of several --sweep; don't combine them.",
        default=False,
        needs=("sweep", "replicas"),
    ),
    _sweep(
        "match",
        str,
        "params: size a sweep's cells to the parameters of the first; params:FIELD.",
        needs=("sweep",),
        excludes=("replicas",),
    ),
    _sweep(
        "executor",
        str,
        "Where a sweep's cells run.",
        default="local",
        choices=("local", "slurm"),
        needs=("sweep",),
        excludes=("replicas",),
    ),
    _sweep(
        "parallel",
        int,
        "Cells of a sweep at once; 0: as many as GPUs, or one.",
        default=0,
        least=0,
        needs=("sweep",),
        excludes=("replicas",),
    ),
    _sweep(
        "slurm",
        tuple,
        "Parameter of Slurm's jobs, in submitit's names, as timeout_min=60.",
        needs=("executor=slurm",),
    ),
    _sweep(
        "dry_run",
        bool,
        "Print a sweep's command lines; run none.",
        default=False,
        needs=("sweep",),
        excludes=("replicas",),
    ),
    _sweep(
        "tune",
        tuple,
        "Searches for a good value: FIELD=low..high, FIELD=low..high:log or FIELD=v1,v2,…",
        excludes=("replicas",),
    ),
    _sweep(
        "trials",
        int,
        "Trials of --tune, over all processes.",
        default=20,
        least=1,
        needs=("tune",),
    ),
    _sweep(
        "metric",
        str,
        "What --tune goes by, as dev/wer; by default dev/ and train.metric.",
        needs=("tune",),
    ),
    _sweep(
        "replicas",
        tuple,
        "Trains several runs in one program: a number of seeds, or FIELD=v1,v2,… of a numeric "
        "field.",
    ),
    Flag(
        "checkpoint",
        str,
        "best, latest, a number of steps, average:N (newest) or best:N.",
        TRAINED,
        default="best",
    ),
    Flag(
        "split",
        str,
        "dev, test, or a test split's own name.",
        ("evaluate", "score", "align"),
        default="test",
    ),
    Flag(
        "source",
        str,
        "File of sources, in place of a split.",
        ("score", "align"),
        excludes=("split",),
    ),
    Flag("target", str, "File of targets, a line each.", ("score", "align")),
    Flag(
        "gold",
        str,
        "Gold links: Pharaoh lines (i-j sure, i?j possible) or a table.",
        ("evaluate", "align"),
    ),
    Flag(
        "gold_base",
        str,
        "Number of a sentence's first word in gold links; default: 0 in Pharaoh lines, 1 in "
        "tables.",
        ("evaluate", "align"),
        choices=("0", "1"),
        needs=("gold",),
    ),
    Flag(
        "threshold",
        float,
        "Link words of at least this weight; default: to the heaviest.",
        ALIGN,
        least=0,
        most=1,
    ),
    Flag(
        "symmetrize",
        str,
        "Combine the links with those of --reverse.",
        ALIGN,
        choices=symmetrization.METHODS,
        needs=("reverse",),
    ),
    Flag(
        "reverse",
        str,
        "Workdir of a run from target to source, or the Pharaoh lines that align wrote with it.",
        ALIGN,
        needs=("symmetrize",),
    ),
    Flag("draw", int, "Pairs that are drawn, the first ones.", ALIGN, default=20, least=0),
    Flag(
        "pictures",
        str,
        "Directory for what is drawn; default: alignments/given in the workdir.",
        ALIGN,
        excludes=("draw=0",),
    ),
    _decode("beam_size", "Hypotheses kept a sentence; 1 is greedy search"),
    _decode("length_penalty", "none, average (per token) or gnmt"),
    _decode("length_penalty_alpha", "Alpha of gnmt"),
    _decode("coverage_penalty", "Beta of GNMT's penalty for words not attended to; 0: none"),
    _decode("min_length_ratio", "Outputs have at least this many times the source's tokens"),
    _decode("max_length_ratio", "Outputs have at most this many times its tokens, plus 10"),
    _decode("suppress_unk", "Never choose the unknown word"),
    _decode("temperature", "Above 0: sample, instead of searching"),
    Flag(
        "nbest",
        int,
        "The N best outputs of each line, as rank, score and text.",
        TRANSLATE,
        default=0,
        least=0,
    ),
    Flag("input", str, "File of lines; default: standard input.", TRANSLATE),
    Flag("output", str, "File for the outputs; default: standard output.", TRANSLATE),
    Flag("prefixes", str, "File of what the outputs of each line must begin with.", TRANSLATE),
    Flag("alignments", str, "File for the alignments, one line an output.", TRANSLATE),
    Flag(
        "alignment_format",
        str,
        "Tokens and matrix, or links i-j of words; default: by the name of --alignments.",
        TRANSLATE,
        choices=("json", "pharaoh"),
        needs=("alignments",),
    ),
    Flag(
        "replace_unk",
        bool,
        "Put the aligned source word in the place of an unknown one.",
        TRANSLATE,
        default=False,
    ),
    Flag(
        "lexicon",
        str,
        "File of source word, tab, translation.",
        TRANSLATE,
        needs=("replace_unk",),
    ),
    Flag(
        "ensemble",
        list,
        "Further workdirs, each perhaps with @CHECKPOINT behind it.",
        TRANSLATE,
        default=(),
    ),
)


def refuse_ignored(values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raises InputError if the command line gives a flag that would be ignored.

    Args:
      values: of every flag of the table, given or not.
      given: the names of those that were given.
    """
    mode = values["mode"]
    for flag in FLAGS:
        name = flag.name
        if name not in given:
            continue
        if values[name] in ("", []):
            raise InputError(f"--{name} is empty; give it a value, or leave the flag out")
        if mode not in flag.modes:
            read = " and ".join(f"--mode={m}" for m in flag.modes)
            also = ""
            if flag.field and mode in ("train", "explain"):
                also = f", or give --config.{flag.field}={values[name]}"
            raise InputError(f"--{name} is for {read}; leave it out of --mode={mode}{also}")
        for other in flag.excludes:
            if _holds(other, values, given):
                raise InputError(f"--{name} and --{other} can't be given together; choose one")
        if flag.needs and not any(_holds(other, values) for other in flag.needs):
            needed = " or ".join(f"--{other}" for other in flag.needs)
            raise InputError(f"--{name} has no effect without {needed}; add it, or leave it out")


def _holds(condition: str, values: Mapping[str, Any], given: Collection[str] | None = None) -> bool:
    """Returns whether `NAME=VALUE` is so; or NAME is switched on, or among the given flags."""
    name, equals, value = condition.partition("=")
    if equals:
        return str(values[name]) == value
    return name in given if given is not None else bool(values[name])


def markdown(flags: Sequence[Flag] = FLAGS) -> str:
    """Returns the flags as a table in Markdown, for the documentation."""
    lines = ["| flag | modes | default | what |", "|---|---|---|---|"]
    for flag in flags:
        modes = "all" if flag.modes == ALL else ", ".join(flag.modes)
        default = "" if flag.default in (None, ()) else f"`{str(flag.default).lower()}`"
        what = f"{flag.help}{_conditions(flag)}".replace("|", "\\|")
        lines.append(f"| `--{flag.name}{_shape(flag)}` | {modes} | {default} | {what} |")
    return "\n".join(lines) + "\n"


def help_lines(flag: Flag) -> list[str]:
    """Returns what `--help` says of a flag: how it is given, and what it does."""
    default = "" if flag.default in (None, (), False) else f" Default: {flag.default}."
    return [f"--{flag.name}{_shape(flag)}", f"{flag.help}{_conditions(flag)}{default}"]


def _shape(flag: Flag) -> str:
    if flag.choices:
        return f"={{{','.join(flag.choices)}}}" if flag.name != "mode" else "=MODE"
    names = {bool: "", int: "=NUMBER", float: "=NUMBER", list: "=TEXT,TEXT,…"}
    return names.get(flag.kind, "=TEXT")


def _conditions(flag: Flag) -> str:
    if not flag.needs:
        return ""
    return " With " + " or ".join(f"--{other}" for other in flag.needs) + "."
