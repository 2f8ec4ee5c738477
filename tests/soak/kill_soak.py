"""Kills training runs at random moments of the clock, and compares what they end with.

    python tests/soak/kill_soak.py --kills=200

A run of a small model on made-up words is started, killed from outside after a random time (by
SIGKILL, every fifth time by SIGTERM, upon which it saves), and started again in the same workdir,
until it ends; then its parameters, optimiser state, metrics.jsonl without speeds, result.json and
best checkpoint are compared, bit for bit, with those of a run that nobody killed; then the next run
begins. Every other one is a pair of replicas in one program, every sixth a sweep of two cells, in
which the process that starts the cells is killed. Prints where the kills fell, and each difference.
Exit status 1 if there is one.

Starting Python and importing JAX is left out of every start but the first: the processes are forked
from one that has done so and has touched no device.
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import runpy
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation.trained_run import make_model
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.directory import read_config

LAUNCH = Path(__file__).parents[2] / "launch.py"
# What is started, in turn, and the flags that make it so.
KINDS = {"run": [], "replicas": ["--replicas=2"], "sweep": ["--sweep=seed=0,1"]}
TURNS = ("run", "replicas", "run", "replicas", "run", "sweep")

EXPERIMENT = """
from bahdanau_jax.config import Config


def get_config():
    config = Config()
    data, model, train = config.data, config.model, config.train
    data.source, data.max_length, data.shapes = "tsv:data", 6, 2
    data.vocabulary.kind, data.vocabulary.target_kind = "characters", "symbols"
    data.vocabulary.size = 0
    model.embedding = model.encoder.units = model.decoder.units = 32
    model.attention.units = model.readout_units = 32
    train.steps, train.batch_size, train.log_every = STEPS, 16, 7
    train.eval_every, train.checkpoint_every = 50, 9
    train.learning_rate, train.schedule, train.warmup_steps = 1e-2, "cosine", 5
    train.metric, train.label_smoothing = "per", 0.05
    train.dropout.embedding = train.dropout.annotations = train.dropout.readout = 0.1
    config.evaluation.metrics, config.evaluation.samples = "error_rate", 0
    return config
"""


def write_experiment(directory: Path, steps: int) -> None:
    """Writes an experiment with dropout, a schedule, evaluations and many saves, and its words."""
    chance = random.Random(0)
    (directory / "data").mkdir()
    for name, count in (("train", 400), ("dev", 16), ("test", 16)):
        words = ["".join(chance.choices("abcdef", k=chance.randint(1, 6))) for _ in range(count)]
        lines = [f"{word}\t{' '.join(word.upper())}\n" for word in words]
        (directory / "data" / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    (directory / "experiment.py").write_text(
        EXPERIMENT.replace("STEPS", str(steps)), encoding="utf-8"
    )


def run(directory: Path, kind: str) -> None:
    """Does what `python launch.py --workdir=DIRECTORY` does, in a process of its own."""
    os.chdir(directory.parent)
    log = os.open(f"{directory.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    flags = ["--config=experiment.py", f"--workdir={directory.name}", *KINDS[kind]]
    sys.argv = [str(LAUNCH), *flags]
    runpy.run_path(str(LAUNCH), run_name="__main__")


def state_of(directory: Path) -> str:
    """Says how far a run has come, from its files alone."""
    runs = workdirs(directory)
    if runs and all((each / "result.json").exists() for each in runs):
        return "after the end"
    writing = [each / "checkpoints" / "writing" for each in runs]
    if any(each.exists() and any(each.iterdir()) for each in writing):
        return "during a save"
    if any((each / "checkpoints" / "latest").exists() for each in runs):
        return "between saves"
    return "before the first save"


def workdirs(directory: Path) -> list[Path]:
    """Returns the workdirs of a run's directory: itself, or those of its cells."""
    if (directory / "config.json").exists():
        return [directory]
    return sorted(path.parent for path in directory.glob("*/config.json"))


def contents(directory: Path) -> dict[str, object]:
    """Returns all that has to be the same, by name; arrays and bytes included."""
    of_runs = {path.relative_to(directory): contents_of_run(path) for path in workdirs(directory)}
    return {f"{run} {name}": x for run, kept in of_runs.items() for name, x in kept.items()}


def contents_of_run(directory: Path) -> dict[str, object]:
    """Returns that of one workdir."""
    result = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    # Which run and which start it is of differ, and are to; so do metrics, which have speeds.
    own = ("run", "start", "metrics.jsonl", "checksum")
    kept: dict[str, object] = {"result": {name: x for name, x in result.items() if name not in own}}
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    kept["metrics"] = [
        {name: x for name, x in json.loads(line).items() if not name.startswith("speed/")}
        for line in lines
    ]

    config = read_config(directory)
    model = make_model(config, Vocabularies.load(directory / "vocabulary"))
    optimizer = make_optimizer(config.train, config.train.steps)
    template = jax.eval_shape(
        lambda: create_state(model, optimizer, config.seed, config.train.average)
    )
    with Checkpoints(directory / "checkpoints") as checkpoints:
        for which in ("latest", "best"):
            restored = checkpoints.restore(template, which)
            progress = {n: x for n, x in restored.progress.items() if n != "lines_digest"}
            kept[f"{which} step"], kept[f"{which} loop"] = restored.step, progress
            state = restored.state.replace(key=jax.random.key_data(restored.state.key))
            for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
                kept[which + jax.tree_util.keystr(path)] = np.asarray(leaf)
    return kept


def differences(ours: dict, theirs: dict) -> list[str]:
    """Returns the names of what isn't the same."""
    return [
        name
        for name in sorted(ours.keys() | theirs.keys())
        if name not in ours or name not in theirs or not np.array_equal(ours[name], theirs[name])
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills training runs at random moments.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--steps", type=int, default=300, help="of each run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new run after this time")
    arguments = parser.parse_args()
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["bahdanau_jax.cli.dispatch", "kill_soak"])
    scratch = Path(tempfile.mkdtemp(prefix="kill-soak-"))
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(scratch / "xla")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    write_experiment(scratch, arguments.steps)

    def start(name: str, kind: str):
        process = processes.Process(target=run, args=(scratch / name, kind))
        process.start()
        return process

    turns = TURNS if arguments.kills >= len(TURNS) else TURNS[:1]
    longest, references = {}, {}
    for kind in dict.fromkeys(turns):
        start(f"whole-{kind}", kind).join()
        began = time.monotonic()  # with every program compiled: the time that kills are drawn from
        start(f"again-{kind}", kind).join()
        longest[kind] = time.monotonic() - began
        references[kind] = contents(scratch / f"whole-{kind}")
        wrong = differences(contents(scratch / f"again-{kind}"), references[kind])
        print(
            f"undisturbed, {kind} takes {longest[kind]:.1f} s; twice the same: {not wrong}",
            flush=True,
        )
    chance, fell, killed = (
        random.Random(arguments.seed),
        collections.Counter(),
        collections.Counter(),
    )
    kills = runs = starts = faults = 0
    slowest, begin = 0.0, time.monotonic()

    def is_over() -> bool:
        return kills >= arguments.kills or time.monotonic() - begin > 60 * arguments.minutes

    while not is_over():
        kind = turns[runs % len(turns)]
        name = f"{kind}-{runs}"
        process, starts = start(name, kind), starts + 1
        process.join(chance.uniform(0.1, 0.7) * longest[kind])
        if process.exitcode is None:
            number = signal.SIGTERM if kills % 5 == 4 else signal.SIGKILL
            sent = time.monotonic()
            assert process.pid is not None  # it was started
            os.kill(process.pid, number)
            process.join()
            # Before the run listens for it, SIGTERM ends Python as it always does; once the run is
            # over, it comes too late.
            expected = (-number, 128 + number, 0) if number == signal.SIGTERM else (-number,)
            if number == signal.SIGTERM:
                slowest = max(slowest, time.monotonic() - sent)
            kills += 1
            killed[kind] += 1
            fell[state_of(scratch / name)] += 1
            if process.exitcode in expected and not is_over():
                continue
            if process.exitcode in expected:
                process, starts = start(name, kind), starts + 1
                process.join()
        if process.exitcode:
            print((scratch / f"{name}.log").read_text(encoding="utf-8")[-2000:])
            print(f"{name}: a start ended with status {process.exitcode}")
            return 1
        wrong = differences(contents(scratch / name), references[kind])
        faults += bool(wrong)
        if wrong:
            print(f"{name} differs: {', '.join(wrong)}", flush=True)
        runs += 1
        shutil.rmtree(scratch / name)
    where = "; ".join(f"{count} {where}" for where, count in fell.most_common())
    print(
        f"{kills} kills in {runs} runs, {starts} starts, {time.monotonic() - begin:.0f} s: {where}"
    )
    print("killed: " + "; ".join(f"{count} of {kind}" for kind, count in killed.items()))
    print(f"SIGTERM, every fifth of them, took at most {slowest:.1f} s")
    print(f"{faults} of {runs} runs ended otherwise than the run that nobody killed")
    shutil.rmtree(scratch)
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
