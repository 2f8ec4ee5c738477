"""The command line: flags to a checked configuration, then one mode.

python launch.py                                                    train the default experiment
python launch.py --config=experiments/cmudict.py --workdir=W        train another, or go on
python launch.py --config=C --workdir=V --init_from=W               begin with W's best parameters
python launch.py --mode=evaluate  --workdir=W --split=test          figures of a split
python launch.py --mode=translate --workdir=W < in.txt > out.txt    one output a line
python launch.py --mode=translate --workdir=W --beam_size=5 --nbest=5 --input=in.txt
python launch.py --mode=score     --workdir=W --source=F --target=G   log-probability of each
python launch.py --mode=align     --workdir=W --source=F --target=G   Pharaoh lines, pictures
python launch.py --mode=explain   --config=experiments/cmudict.py    each choice, and what it costs
python launch.py --config=C --sweep=model.attention.score=additive,dot --sweep=seed=0,1 --workdir=W
python launch.py --mode=compare   --workdir=W                        a sweep's table and report.html
python launch.py --config=C --tune=train.learning_rate=1e-4..1e-2:log --trials=20 --workdir=W
"""

import logging
import os
import sys
from pathlib import Path

from absl import flags
from ml_collections import config_flags

from bahdanau_jax.cli import decode_flags, sweep_flags
from bahdanau_jax.cli.command_line import parse_flags
from bahdanau_jax.cli.modes import MODES, refuse_ignored
from bahdanau_jax.cli.recorded import default_workdir
from bahdanau_jax.errors import InputError, one_line
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir.selection import parse_selection

DEFAULT = Path(__file__).parent / "experiments" / "cmudict.py"

for module in (decode_flags, sweep_flags):
    flags.adopt_module_key_flags(module)  # so that --help shows them
_ARGUMENTS: list[str] = []  # what `parse_flags` parses; config_flags looks for fields in it
_CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    f"Experiment file, {DEFAULT.name} by default; its fields are flags, as --config.seed=1.",
    sys_argv=_ARGUMENTS,
)
_MODE = flags.DEFINE_enum("mode", "train", MODES, "What to do.")
_WORKDIR = flags.DEFINE_string(
    "workdir", None, "Directory of the run; training makes it. Default: runs/ and the file's name."
)
_DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "train: as one of several processes, found by Slurm, TPU or Kubernetes."
)
_COORDINATOR = flags.DEFINE_string(
    "coordinator", None, "--distributed: HOST:PORT of the first process, where nobody else says it."
)
_PROCESS = flags.DEFINE_integer(
    "process", None, "--distributed: this process's number, from 0.", lower_bound=0
)
_PROCESSES = flags.DEFINE_integer(
    "processes", None, "--distributed: how many there are.", lower_bound=1
)
_DETERMINISTIC = flags.DEFINE_bool(
    "deterministic", False, "Slower programs on GPUs, whose results are the same at each run."
)
_INIT_FROM = flags.DEFINE_string(
    "init_from", None, "train: a run's directory; a new run begins with its best parameters."
)
_SPLIT = flags.DEFINE_string(
    "split", "test", "evaluate, score, align: dev, test, or a test split's own name."
)
_SOURCE = flags.DEFINE_string("source", None, "score, align: file of sources, in place of a split.")
_TARGET = flags.DEFINE_string("target", None, "score, align: file of targets, a line each.")
_GOLD = flags.DEFINE_string(
    "gold", None, "evaluate, align: gold links, Pharaoh lines (i-j sure, i?j possible) or a table."
)
_THRESHOLD = flags.DEFINE_float(
    "threshold", None, "align: link words of at least this weight; default: to the heaviest.", 0, 1
)
_DRAW = flags.DEFINE_integer("draw", 20, "align: pairs that are drawn, the first ones.", 0)
_PICTURES = flags.DEFINE_string(
    "pictures",
    None,
    "align: directory for what is drawn; default: alignments/given in the workdir.",
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "best",
    "evaluate, translate, score, align: best, latest, a number of steps, or average:N.",
)


def main(argv: list[str]) -> None:
    """Runs the mode that the flags name."""
    if len(argv) > 1:
        raise InputError(f"unexpected argument {argv[1]!r}; flags begin with --")
    refuse_ignored(_MODE.value)
    if _SOURCE.value and flags.FLAGS["split"].present:
        raise InputError("--split and --source are two places for the pairs; give one")
    if _WORKDIR.value == "":
        raise InputError("--workdir is empty; name a directory, or leave the flag out")
    if _INIT_FROM.value == "":
        raise InputError("--init_from is empty; name a directory, or leave the flag out")
    directory = Path(_WORKDIR.value or default_workdir(_experiment()))
    # Imported below the checks, so that a wrong flag is answered at once.
    if _MODE.value in ("train", "explain"):
        config = _CONFIG.value
        if _MODE.value == "train" and sweep_flags.wanted():
            sweep_flags.start(config, directory, Path(__file__), _overrides(), _configure_jax)
            return
        validate(config)
        _configure_jax()
        _join_processes()
        if _MODE.value == "explain":
            from bahdanau_jax.modes.explain import explain

            explain(config, directory, sys.stdout)
            return
        from bahdanau_jax.training.train import train

        origin = _INIT_FROM.value
        train(config, directory, _overrides(), None if origin is None else Path(origin))
        return
    if _MODE.value == "compare":
        if overrides := _overrides():
            raise InputError(
                f"--mode=compare reads finished runs; leave out --config.{overrides[0]}"
            )
        from bahdanau_jax.comparison.report import report

        report(directory, sys.stdout)
        return
    which = parse_selection(_CHECKPOINT.value)
    decode = decode_flags.fields(config_flags.get_override_values(flags.FLAGS["config"]))
    _configure_jax()
    if _MODE.value == "translate":
        decode_flags.run_translate(directory, which, decode)
        return
    from bahdanau_jax.evaluation.trained_run import open_run, open_run_split
    from bahdanau_jax.terminal import say

    run = open_run(directory, which, decode)
    if _MODE.value == "evaluate":
        from bahdanau_jax.evaluation.gold_comparison import with_gold
        from bahdanau_jax.reports import evaluation_report

        split = open_run_split(directory, run.config, _SPLIT.value, say)
        if _GOLD.value:
            split = with_gold(run, split, _GOLD.value)
        figures, _ = evaluation_report.evaluate_split(run, directory, split)
        evaluation_report.print_figures(split.name, figures)
        evaluation_report.print_parts(directory, split.name)
        return
    from bahdanau_jax.evaluation.given_pairs import given_texts

    texts = given_texts(run, directory, _SOURCE.value, _TARGET.value, _SPLIT.value)
    if _MODE.value == "score":
        from bahdanau_jax.modes.score import score

        score(run, texts.pairs, sys.stdout)
        return
    from bahdanau_jax.modes.align import Drawing, align

    pictures = Path(_PICTURES.value or directory / "alignments" / "given")
    drawing = Drawing(pictures, _DRAW.value)
    if _GOLD.value:
        texts = texts.with_gold(run, _GOLD.value)
    align(run, texts, sys.stdout, drawing, threshold=_THRESHOLD.value)


def _configure_jax() -> None:
    from bahdanau_jax.runtime.setup import configure

    configure(deterministic=_DETERMINISTIC.value)


def _join_processes() -> None:
    """Joins the other processes of the run, if flags say so."""
    given = (_COORDINATOR.value, _PROCESS.value, _PROCESSES.value)
    if not _DISTRIBUTED.value:
        if given != (None, None, None):
            raise InputError(
                "--coordinator, --process and --processes belong to --distributed; add it"
            )
        return
    from bahdanau_jax.runtime import processes

    processes.join(*given)


def _experiment() -> str:
    return config_flags.get_config_filename(flags.FLAGS["config"])


def _overrides() -> list[str]:
    values = config_flags.get_override_values(flags.FLAGS["config"])
    return [f"{name}={value}" for name, value in values.items()]


def run(argv: list[str]) -> int:
    """Runs the program; returns its exit status."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    if {"-h", "--help"} & set(argv[1:]):
        print(__doc__, flags.FLAGS.main_module_help(), sep="\n")
        return 0
    try:
        main(parse_flags(argv, _ARGUMENTS, DEFAULT))
    except BrokenPipeError:
        # The reader of standard output went away, as `head` does: no fault, and nothing to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        line = one_line(error)
        if line is None:
            raise
        print(f"launch.py: {line}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except Stopped as stop:
        print(f"launch.py: {stop}", file=sys.stderr)
        sys.stdout.flush()
        # The compiler's thread may be busy for minutes yet, and the interpreter would wait.
        os._exit(stop.status)
    except KeyboardInterrupt:
        print("launch.py: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv))
