"""A finished run, damaged in every way, and what each use of it then comes to.

All happens in one process, in which every program is compiled once and nothing is drawn.
"""

import contextlib
import enum
import io
import logging
import os
import re
import shutil
import signal
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
import tiny
from path_damages import (
    anothers,
    delete,
    directory,
    fifo,
    files_in,
    link_to_anothers,
    truncate,
    zero,
)
from same_run import result_of, steps_saved, without_speed

from bahdanau_jax import fields
from bahdanau_jax.comparison.report import PAGE, TABLE, report
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError, one_line
from bahdanau_jax.evaluation import trained_run
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes.evaluate import evaluate
from bahdanau_jax.modes.translate import Files, Wanted, translate_files
from bahdanau_jax.reports import heat_maps, plots
from bahdanau_jax.training import loop
from bahdanau_jax.training.compilation import CompiledSteps
from bahdanau_jax.training.saving import Saver
from bahdanau_jax.training.train import train

PATIENCE = 60  # seconds after which a use hangs
STEPS = 63  # to which a run of 60 goes on


class Runs(NamedTuple):
    """Where the runs lie: one that is damaged, one that is compared with it, and a stranger's."""

    root: Path

    @property
    def damaged(self) -> Path:
        return self.root / "sweep" / "run"

    @property
    def beside(self) -> Path:
        return self.root / "sweep" / "beside"

    @property
    def other(self) -> Path:
        return self.root / "other" / "run"

    def config(self, name: str = "run") -> Config:
        """Returns the configuration of a run: its name is its folder's, or `other`."""
        corpus = self.root / ("strangers" if name == "other" else "corpus")
        config = tiny.config(f"tsv:{corpus}")
        config.seed = ["run", "beside", "other"].index(name)
        config.train.log_every, config.evaluation.samples = 20, 0
        return config


def make(root: Path) -> Runs:
    """Trains the runs; keeps a copy of the one that is going to be damaged."""
    runs = Runs(root)
    tiny.write_corpus(root / "corpus")
    tiny.write_corpus(root / "strangers", seed=1)
    (root / "lines.txt").write_text("fed\ncab\nabcdef\n\nzed\n")
    for name, place in (("run", runs.damaged), ("beside", runs.beside), ("other", runs.other)):
        train(runs.config(name), place, [])
    shutil.copytree(root / "sweep", root / "whole")
    return runs


def bring_back(runs: Runs) -> None:
    """Puts all that is damaged, or made from it, back as it was."""
    whole, now = _states(runs.root / "whole"), _states(runs.root / "sweep")
    for name in sorted(now.keys() - whole.keys() | {n for n in whole if now.get(n) != whole[n]}):
        path, source = runs.root / "sweep" / name, runs.root / "whole" / name
        if path.is_dir() and not path.is_symlink():
            if not source.is_dir():
                shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        if source.is_dir():
            path.mkdir(exist_ok=True)
        elif source.exists() and path.parent.is_dir():
            shutil.copy2(source, path)


def _states(root: Path) -> dict[str, tuple]:
    """Returns the kind of every name below a directory, and of files size and time of change."""
    states = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            state = os.lstat(os.path.join(folder, name))
            is_file = stat.S_ISREG(state.st_mode)
            states[os.path.relpath(os.path.join(folder, name), root)] = (
                stat.S_IFMT(state.st_mode),
                *((state.st_size, state.st_mtime_ns) if is_file else ()),
            )
    return states


SAVED: list[tuple[int, int]] = []  # the step and a checksum of each state that training saves

# What is done with a run; each returns what has to be the same for a run that isn't damaged.


def train_on(runs: Runs) -> Any:
    config = runs.config()
    config.train.steps = STEPS
    SAVED.clear()
    train(config, runs.damaged, [])
    kept = [steps_saved(runs.damaged, kind) for kind in ("latest", "best")]
    return without_speed(runs.damaged), result_of(runs.damaged), list(SAVED), kept


def evaluate_test(runs: Runs) -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        evaluate(open_run(runs.damaged), runs.damaged, "test")
    return out.getvalue()


def translate_lines(runs: Runs) -> Any:
    output = runs.root / "output.txt"
    files = Files(str(runs.root / "lines.txt"), str(output))
    translate_files([(runs.damaged, "best")], {}, Wanted(), files)
    text = output.read_text()
    output.unlink()
    return text


def compare(runs: Runs) -> Any:
    out = io.StringIO()
    report(runs.damaged.parent, out)
    return out.getvalue(), *((runs.damaged.parent / n).read_text() for n in (TABLE, PAGE))


USES: list[Callable[[Runs], Any]] = [train_on, evaluate_test, translate_lines, compare]


# Ways in which a file or a directory is damaged.


def flipped(path: Path, other: Path) -> None:
    for file in files_in(path):
        content = bytearray(file.read_bytes())
        if content:
            # In text a digit, which makes another value, if there is one.
            digits = [m.start() for m in re.finditer(rb"(?<=[ .])[1-9]", content)]
            content[digits[len(digits) // 2] if digits else len(content) // 2] ^= 1
        file.write_bytes(content)


DAMAGES: list[Callable[[Path, Path], None]] = [
    truncate,
    zero,
    flipped,
    delete,
    directory,
    fifo,
    link_to_anothers,
    anothers,
]


class Ending(enum.Enum):
    """How a use of a damaged run may end, and how it may not."""

    SAME = "the same as without the damage"
    TOLD = "something else, and it says why"
    REFUSED = "refused in one line"
    TRACEBACK = "a traceback"
    SILENT = "something else, without a word"
    LOSS = "something is gone that was there"
    HANG = "no end"


USUAL = ("trained for ", "comparing ")  # in lines that say nothing of a damage
GOOD = (Ending.SAME, Ending.TOLD, Ending.REFUSED)


class Outcome(NamedTuple):
    """What a use came to, and what it said."""

    ending: Ending
    words: str


def judge(runs: Runs, use: Callable, undamaged: "Undamaged") -> Outcome:
    """Uses a run that is damaged, and says what came of it."""
    outside = [runs.other, runs.beside, runs.root / "corpus", runs.root / "strangers"]
    before = [contents(path) for path in outside]
    inside = contents(runs.damaged)
    result, words, error = attempt(use, runs)
    if isinstance(error, TimeoutError):
        return Outcome(Ending.HANG, words)
    if error is not None and one_line(error) is None:
        return Outcome(Ending.TRACEBACK, f"{type(error).__name__}: {error}")
    if [contents(path) for path in outside] != before:
        return Outcome(Ending.LOSS, words)
    if error is not None:
        line = one_line(error) or ""
        changed = [n for n, x in inside.items() if contents(runs.damaged).get(n) != x]
        # Status 1 is that of a run that was well begun: what it did until then is saved.
        if changed and isinstance(error, InputError):
            return Outcome(Ending.LOSS, f"{changed}: {line}")
        if "\n" in line:
            return Outcome(Ending.TRACEBACK, line)
        return Outcome(Ending.REFUSED, line)
    if result == undamaged.results[use]:
        return Outcome(Ending.SAME, "")
    if use is compare:  # its result has what it says of runs that it leaves out
        words += "".join(line + "\n" for line in result[0].splitlines() if line.startswith("**"))
    new = [
        line
        for line in words.splitlines()
        if line not in undamaged.words[use] and not line.startswith(USUAL)
    ]
    return Outcome(Ending.TOLD if new else Ending.SILENT, "\n".join(new))


def attempt(use: Callable, runs: Runs) -> tuple[Any, str, Exception | None]:
    """Returns what a use came to, all that was said, and what it raised."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    signal.alarm(PATIENCE)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            return use(runs), said.getvalue(), None
    except Exception as error:
        return None, said.getvalue(), error
    finally:
        signal.alarm(0)
        logging.getLogger().removeHandler(handler)


def contents(path: Path) -> dict[str, Any]:
    """Returns every name below a path but the lock's, and what is there; nothing is followed."""
    there = {}
    for folder, folders, names in os.walk(path):
        for name in [*folders, *names]:
            each = Path(folder, name)
            if each.name == ".lock" or ".lock" in each.parts:
                continue
            kind = each.lstat().st_mode
            regular = each.is_file() and not each.is_symlink()
            there[str(each.relative_to(path))] = (kind, each.read_bytes() if regular else None)
    return there


class Undamaged(NamedTuple):
    """What each use comes to, and says, of a run that isn't damaged."""

    results: dict[Callable, Any]
    words: dict[Callable, list[str]]


def use_undamaged(runs: Runs) -> Undamaged:
    """Uses the run as it is, twice: what isn't the same each time can't be compared."""
    results, words = {}, {}
    for use in USES:
        for _ in range(2):
            result, said, error = attempt(use, runs)
            if error is not None:
                raise error
            bring_back(runs)
            assert results.setdefault(use, result) == result
            words[use] = [*words.get(use, []), *said.splitlines()]
    return Undamaged(results, words)


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    """Keeps compiled programs for the next use of the same run, and draws no pictures."""
    patch = pytest.MonkeyPatch()
    evaluators: dict[tuple, Any] = {}
    steps: dict[tuple, CompiledSteps] = {}
    evaluator = trained_run.Evaluator

    def kept_evaluator(model, config, vocabularies, members=0):
        key = (fields.to_json(config), vocabularies.fingerprint, members)
        return evaluators.setdefault(key, evaluator(model, config, vocabularies, members))

    def kept_steps(trainer, states, start):
        config = trainer.members[0].config
        key = (fields.to_json(config), trainer.data.vocabularies.fingerprint)
        if key not in steps:
            function = loop.devices.on_devices(
                trainer.program.step, donate=True, across_processes=True
            )
            steps[key] = CompiledSteps(function, states, trainer.batcher.shapes)
            for shape in trainer.batcher.shapes:
                steps[key][shape]
        return contextlib.nullcontext(steps[key])

    shapes: dict[str, Any] = {}
    initial_params, program_shapes = trained_run.initial_params, loop.Trainer._shapes.func

    def kept_params(model, key):
        name = repr(model)
        if name not in shapes:
            shapes[name] = jax.eval_shape(lambda: initial_params(model, key))
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes[name])

    def kept_shapes(trainer):
        name = repr((trainer.model, trainer.members[0].config.train.optimizer))
        if name not in shapes:
            shapes[name] = program_shapes(trainer)
        return shapes[name]

    save = Saver.save

    def noted_save(saver, step, state, better):
        leaves = jax.tree.leaves(jax.device_get(state.params))
        SAVED.append((step, zlib.crc32(b"".join(leaf.tobytes() for leaf in leaves))))
        save(saver, step, state, better)

    patch.setattr(trained_run, "initial_params", kept_params)
    patch.setattr(loop.Trainer, "_shapes", property(kept_shapes))
    patch.setattr(Saver, "save", noted_save)
    patch.setattr(trained_run, "Evaluator", kept_evaluator)
    patch.setattr(loop, "Evaluator", kept_evaluator)
    patch.setattr(loop.Trainer, "_compile", kept_steps)
    patch.setattr(heat_maps, "heat_maps", lambda path, *_, **__: None)
    patch.setattr(plots, "by_length", lambda path, *_: None)
    for name in ("intervals", "training_curves", "length_curves", "front"):
        patch.setattr(plots, name, lambda *given: repr(given))

    def hangs(*_):
        raise TimeoutError(f"a use takes more than {PATIENCE} s")

    former = signal.signal(signal.SIGALRM, hangs)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, former)
        patch.undo()


def paths(run: Path) -> list[str]:
    """Returns every file of a workdir and every directory, but the empty one of saves under way."""
    every = (str(path.relative_to(run)) for path in sorted(run.rglob("*")))
    return [name for name in every if name != "checkpoints/writing"]


def counterpart(runs: Runs, name: str) -> Path:
    """Returns the path of the other run that stands for the same as one of the damaged run."""
    path = runs.other / name
    if path.exists():
        return path
    parent = counterpart(runs, os.path.dirname(name))
    there = sorted(parent.iterdir()) if parent.is_dir() else []
    return there[-1] if there else path


def damage(runs: Runs, name: str, how: Callable[[Path, Path], None]) -> None:
    """Damages one path of a run."""
    how(runs.damaged / name, counterpart(runs, name))


def uses_of(name: str, turn: int) -> list[Callable[[Runs], Any]]:
    """Returns the uses that are tried of a damaged path: all, but of a file in a checkpoint one.

    Its checksums are compared before any file of it is read, whatever the use.

    Args:
      name: of the path.
      turn: which of the uses it is.
    """
    if len(Path(name).parts) < 4:
        return USES
    return [USES[turn % len(USES)]]
