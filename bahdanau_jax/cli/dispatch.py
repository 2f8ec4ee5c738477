"""What each mode runs. Imported once a command line is known to be right, since it imports JAX."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bahdanau_jax.cli.checks import Task
from bahdanau_jax.cli.command_line import CommandLine
from bahdanau_jax.comparison.report import report
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.given_pairs import given_texts
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes.align import Drawing, OtherDirection, align
from bahdanau_jax.modes.evaluate import evaluate
from bahdanau_jax.modes.explain import explain
from bahdanau_jax.modes.score import score
from bahdanau_jax.modes.translate import Files, Wanted, read_lexicon, translate_files
from bahdanau_jax.runtime import processes, setup
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir.selection import Selection, parse_selection


def run(line: CommandLine, task: Task) -> None:
    """Runs the mode that a command line names.

    Args:
      line: the command line.
      task: what `check` returned for it.
    """
    setup.configure(deterministic=line.values["deterministic"])
    RUN[line.mode](line, task)


def _train(line: CommandLine, task: Task) -> None:
    assert task.config is not None
    flag = line.values
    if flag["distributed"]:
        processes.join(flag["coordinator"], flag["process"], flag["processes"])
    origin = None if flag["init_from"] is None else Path(flag["init_from"])
    source = line.experiment.source
    train(task.config, line.directory, line.overrides(), origin, source, flag["restart"])


def _explain(line: CommandLine, task: Task) -> None:
    assert task.config is not None
    explain(task.config, line.directory, sys.stdout, line.experiment.header)


def _evaluate(line: CommandLine, task: Task) -> None:
    run = open_run(line.directory, task.checkpoint, task.settings)
    flag = line.values
    evaluate(run, line.directory, flag["split"], flag["gold"], _base(flag), task.checkpoint)


def _translate(line: CommandLine, task: Task) -> None:
    flag = line.values
    members = [(line.directory, task.checkpoint), *map(_member, flag["ensemble"])]
    lexicon = None
    if flag["replace_unk"]:
        lexicon = read_lexicon(flag["lexicon"]) if flag["lexicon"] else {}
    files = Files(flag["input"], flag["output"], flag["prefixes"], flag["alignments"])
    wanted = Wanted(flag["nbest"], lexicon, files.alignment_format(flag["alignment_format"]))
    translate_files(members, task.settings, wanted, files)


def _score(line: CommandLine, task: Task) -> None:
    flag = line.values
    run = open_run(line.directory, task.checkpoint, task.settings)
    texts = given_texts(run, line.directory, flag["source"], flag["target"], flag["split"])
    score(run, texts.pairs, sys.stdout)


def _align(line: CommandLine, task: Task) -> None:
    flag = line.values
    run = open_run(line.directory, task.checkpoint, task.settings)
    texts = given_texts(run, line.directory, flag["source"], flag["target"], flag["split"])
    if flag["gold"]:
        texts = texts.with_gold(run, flag["gold"], _base(flag))
    pictures = Path(flag["pictures"] or line.directory / "alignments" / "given")
    drawing = Drawing(pictures, flag["draw"])
    other = None
    if flag["symmetrize"]:
        other = OtherDirection(flag["symmetrize"], Path(flag["reverse"]), task.checkpoint)
    align(run, texts, sys.stdout, drawing, threshold=flag["threshold"], other=other)


def _compare(line: CommandLine, task: Task) -> None:
    report(line.directory, sys.stdout)


def _base(flag: Mapping[str, Any]) -> int | None:
    return None if flag["gold_base"] is None else int(flag["gold_base"])


def _member(text: str) -> tuple[Path, Selection]:
    if not text.partition("@")[0]:
        raise InputError("--ensemble has an empty name; give workdirs with commas between")
    path, at, which = text.rpartition("@")
    if not at:
        return Path(text), "best"
    return Path(path), parse_selection(which, "--ensemble: the checkpoint behind @")


RUN: dict[str, Callable[[CommandLine, Task], None]] = {
    "train": _train,
    "evaluate": _evaluate,
    "translate": _translate,
    "score": _score,
    "align": _align,
    "compare": _compare,
    "explain": _explain,
}
