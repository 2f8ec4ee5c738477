"""Several processes, here two on one machine that speak over its loopback interface."""

import shutil
import signal
import socket
from pathlib import Path

import jax
import numpy as np
import pytest
import tiny
from launching import Launched, launch
from same_run import saved_state, steps_saved

from bahdanau_jax.runtime import processes
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.manifest import read_starts
from bahdanau_jax.workdir.metrics_log import read_metrics

FLAGS = ["--config=spelling.py", "--config.train.schedule=constant"]
FLAGS += ["--config.train.warmup_steps=0", "--config.train.learning_rate=3e-3"]
FLAGS += ["--config.train.log_every=5", "--config.train.checkpoint_every=10"]
FLAGS += ["--config.train.eval_every=1000"]


@pytest.fixture
def scratch(corpus, tmp_path):
    """A directory with an experiment file."""
    (tmp_path / "spelling.py").write_text(
        f"import sys\nsys.path.append({str(Path(tiny.__file__).parent)!r})\nimport tiny\n"
        f"def get_config():\n    return tiny.config({corpus!r})\n"
    )
    return tmp_path


def start_two(flags, scratch, second=()):
    """Starts two processes of a run; flags of the second may have other values."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    shared = [*FLAGS, *flags, "--distributed", f"--coordinator=localhost:{port}", "--processes=2"]
    others = {flag.partition("=")[0] for flag in second}
    own = [flag for flag in shared if flag.partition("=")[0] not in others]
    return [
        Launched([*given, f"--process={number}"], scratch)
        for number, given in enumerate([shared, [*own, *second]])
    ]


def has_saved(directory, step):
    latest = directory / "checkpoints" / "latest"
    return latest.is_dir() and max(steps_saved(directory, "latest"), default=0) >= step


def losses(directory, last):
    return {
        line["step"]: (line["train/loss"], line["train/gradient_norm"])
        for line in read_metrics(directory)
        if "train/loss" in line and line["step"] <= last and line["step"] % 5 == 0
    }


def assert_same_training(scratch, last):
    """Trains for as many steps with two devices in one process, and compares it with `two`."""
    one = launch([*FLAGS, "--workdir=one", f"--config.train.steps={last}"], scratch, devices=2)
    assert one.status == 0, one.err
    ours, theirs = losses(scratch / "two", last), losses(scratch / "one", last)
    assert len(ours) >= 4
    assert ours.keys() == theirs.keys()
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=0, atol=1e-5)
    config = workdir.read_config(scratch / "one")
    a, b = (saved_state(scratch / name, config, "latest") for name in ("two", "one"))
    assert a[0] == b[0] == last
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-4), a[1], b[1])


def test_two_processes_are_one_with_two_devices(scratch):
    for process in start_two(["--workdir=two", "--config.train.steps=20"], scratch):
        ended = process.finish()
        assert ended.status == 0, ended.err
    assert_same_training(scratch, 20)


@pytest.mark.slow
def test_two_processes_are_one_through_death_resumption_and_notice(scratch):
    two = ["--workdir=two", "--config.train.steps=100000"]
    first, second = start_two(two, scratch)
    first.wait_for(lambda: has_saved(scratch / "two", 20))
    second.send(signal.SIGKILL)
    ended = first.finish(timeout=60)
    assert ended.status == 1, ended.err
    assert "has lost another process of the run" in ended.lines[-1]
    assert "Traceback" not in ended.err
    assert second.finish().status == -signal.SIGKILL

    # One process takes it up with one device, and two processes take it up again.
    saved = steps_saved(scratch / "two", "latest")[-1]
    alone = launch([*FLAGS, "--workdir=two", f"--config.train.steps={saved + 20}"], scratch)
    assert alone.status == 0, alone.err
    assert f"resuming from step {saved:,}" in alone.err
    first, second = start_two(two, scratch)
    first.wait_for(lambda: has_saved(scratch / "two", saved + 40))
    second.send(signal.SIGTERM)
    for process in (first, second):
        ended = process.finish()
        assert ended.status == 143, ended.err
        assert ended.lines[-1] == "launch.py: stopped by SIGTERM; the same command goes on"
    # Only the first writes logs.
    assert [line for line in ended.lines if not line.startswith("[Gloo]")] == ended.lines[-1:]
    assert ended.out == b""
    last = steps_saved(scratch / "two", "latest")[-1]
    assert f"stopped at step {last:,}, which is saved" in first.err()
    starts = read_starts(scratch / "two")
    assert [start["devices"]["processes"] for start in starts] == [2, 1, 2]
    assert [start["devices"]["count"] for start in starts] == [2, 1, 2]

    assert_same_training(scratch, last)


def test_a_mistake_is_said_by_both_and_leaves_nobody_waiting(scratch):
    for process in start_two(["--config.data.source=tsv:nowhere", "--workdir=run"], scratch):
        ended = process.finish(timeout=60)
        assert ended.status == 2, ended.err
        assert ended.lines[-1].startswith("launch.py: process 0: ")
        assert "nowhere" in ended.lines[-1]


def test_hosts_that_were_started_otherwise_are_refused_before_anything_is_written(scratch, trained):
    same = (scratch / "spelling.py").read_text()
    (scratch / "other.py").write_text(f"{same}# a comment\n")
    differing = [
        (
            ["--config.seed=1", "--config.train.learning_rate=0.5"],
            "seed is 1 and 0 there; train.learning_rate is 0.5 and 0.003 there",
        ),
        (["--config=other.py"], "the experiment file has another text"),
        ([f"--init_from={trained.directory}"], "--init_from is given in one of them only"),
    ]
    for second, words in differing:
        for process in start_two(["--workdir=run"], scratch, second):
            ended = process.finish(timeout=240)
            assert ended.status == 2, ended.err
            assert ended.lines[-1].startswith("launch.py: process 1: it was started otherwise")
            assert words in ended.lines[-1]
        assert not (scratch / "run").exists()


def the_same(scratch):
    shutil.copytree(scratch / "first", scratch / "second")
    return scratch / "second"


def another_run(scratch):
    launch([*FLAGS, "--workdir=second", "--config.train.steps=20"], scratch)


def no_checkpoints(scratch):
    shutil.rmtree(the_same(scratch) / "checkpoints")


def no_metrics(scratch):
    (the_same(scratch) / "metrics.jsonl").unlink()


def another_model(scratch):
    flags = [*FLAGS, "--config.train.steps=1", "--config.model.embedding=3"]
    launch([*flags, "--workdir=second"], scratch)


# What the second host finds, which of its flags differ, and what both processes say then.
OTHER_FILES = {
    "no run": (lambda scratch: None, "workdir", "isn't the one that process 0 reads"),
    "another run": (another_run, "workdir", "isn't the one that process 0 reads"),
    "no checkpoints": (no_checkpoints, "workdir", "isn't the one that process 0 reads"),
    "no metrics": (no_metrics, "workdir", "second/metrics.jsonl has 0 of the 5 lines that it had"),
    "another model": (another_model, "workdir", "second holds a run of another configuration"),
    "nothing to begin with": (lambda scratch: None, "init_from", "--init_from=second"),
    "another beginning": (another_model, "init_from", "--init_from=second holds another model"),
    "another beginning's step": (another_run, "init_from", "isn't the one that process 0 reads"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OTHER_FILES)
def test_hosts_that_find_other_files_are_refused_in_the_same_words(case, scratch):
    prepare, differing, words = OTHER_FILES[case]
    assert launch([*FLAGS, "--workdir=first", "--config.train.steps=20"], scratch).status == 0
    prepare(scratch)
    flags = ["--config.train.steps=40", f"--{differing}=first"]
    if differing == "init_from":
        flags.append("--workdir=new")
    for process in start_two(flags, scratch, [f"--{differing}=second"]):
        ended = process.finish(timeout=240)
        assert ended.status == 2, ended.err
        assert ended.lines[-1].startswith("launch.py: process 1: ")
        assert words in ended.lines[-1]
    assert steps_saved(scratch / "first", "latest")[-1] == 20
    assert [path.name for path in (scratch / "new").glob("*")] in ([], [".lock"])


@pytest.mark.slow
def test_a_workdir_that_the_first_host_cannot_write_is_said_by_both(scratch):
    (scratch / "run").mkdir()
    (scratch / "run" / "vocabulary").write_text("")
    for process in start_two(["--workdir=run", "--config.train.steps=20"], scratch):
        ended = process.finish(timeout=240)
        assert ended.status == 1, ended.err
        assert "run/vocabulary" in ended.lines[-1]
        assert "File exists" in ended.lines[-1]
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("started", "name"),
    [
        ("/somewhere/launch.py", "launch.py"),
        ("/usr/bin/bahdanau_jax", "bahdanau_jax"),
        ("/site-packages/bahdanau_jax/__main__.py", "bahdanau_jax"),
    ],
)
def test_a_process_that_is_left_alone_says_so_under_the_name_it_was_started_by(
    started, name, monkeypatch, capsys
):
    left = []
    monkeypatch.setattr("sys.argv", [started, "--distributed"])
    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr("os._exit", left.append)
    with processes.until_one_dies():
        raise RuntimeError("UNAVAILABLE: connection\nreset")
    assert left == [1]
    assert capsys.readouterr().err.startswith(f"{name}: process 0 has lost another process")
