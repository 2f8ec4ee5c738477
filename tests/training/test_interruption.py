"""What becomes of runs that are stopped, can't save, or meet numbers that aren't finite."""

import contextlib
import io
import json
import math
import os
import shutil
import signal
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from launching import tree_hash
from same_run import assert_same_run, quietly, saved_state, steps_saved, without_speed

from bahdanau_jax import durable
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.training import loop
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.manifest import read_starts
from bahdanau_jax.workdir.metrics_log import read_metrics


def after(monkeypatch, owner, name, calls, act):
    """Has `act` called before one of the calls of a function: number `calls`, from 0."""
    original, count = getattr(owner, name), iter(range(10**6))

    def wrapped(*args, **kwargs):
        if next(count) == calls:
            act()
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, wrapped)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("owner", "name", "calls", "step"),
    [
        # The evaluation is given up, and comes later.
        pytest.param(Evaluator, "evaluate", 1, 40, id="evaluation"),
        # This batch stays unread.
        pytest.param(Batcher, "batch", 33, 33, id="step", marks=pytest.mark.slow),
        # In the middle of a save, on the save's own thread.
        pytest.param(durable, "write_checksums", 2, None, id="save", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_has_saved_its_last_step_and_goes_on_as_if_nothing_had_been(
    owner, name, calls, step, trained, tmp_path, monkeypatch, capsys
):
    config, directory = trained.config, tmp_path / "run"
    with monkeypatch.context() as patch, pytest.raises(Stopped) as caught:
        after(patch, owner, name, calls, terminate)
        quietly(config, directory)
    assert caught.value.status == 143
    saved = steps_saved(directory, "latest")[-1]
    assert saved == (step or saved)
    assert not (directory / "result.json").exists()
    quietly(config, directory)
    assert_same_run(directory, trained.directory)
    assert [start["step"] for start in read_starts(directory)] == [0, saved]


def test_a_notice_before_the_first_step_leaves_nothing_that_hinders(trained, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        after(patch, workdir, "write_config", 0, terminate)
        quietly(trained.config, tmp_path)
    assert not (tmp_path / "checkpoints").exists()
    assert quietly(trained.config, tmp_path)
    assert without_speed(tmp_path) == without_speed(trained.directory)


@pytest.mark.slow
def test_a_line_written_after_the_checkpoint_is_not_there_twice(trained, tmp_path, monkeypatch):
    """Stopped in an evaluation, which then is made, then killed before the next save."""
    config = trained.config
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        after(patch, Evaluator, "evaluate", 1, terminate)
        quietly(config, tmp_path)

    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        after(patch, Checkpoints, "save", 0, kill)
        quietly(config, tmp_path)
    assert [x["step"] for x in read_metrics(tmp_path) if "dev/per" in x] == [20, 40]
    quietly(config, tmp_path)
    assert_same_run(tmp_path, trained.directory)


def full(*_):
    raise OSError(28, "No space left on device")


def fail_saves(monkeypatch, wanted):
    """Has the saves of these numbers, from 0, fail as they do on a full disk."""
    original, count = durable.write_checksums, iter(range(10**6))
    monkeypatch.setattr(
        durable, "write_checksums", lambda path: full() if next(count) in wanted else original(path)
    )


def test_two_saves_that_fail_are_reported_and_change_nothing(trained, tmp_path, monkeypatch):
    fail_saves(monkeypatch, {2, 3})  # of steps 20 (the first evaluation's) and 27
    said = quietly(trained.config, tmp_path)
    assert (
        "the save of step 20 failed ([Errno 28] No space left on device); the checkpoint of "
        in (said)
    )
    assert "of step 18 is kept, the next save tries again" in said
    assert said.count("tries again") == 2
    assert without_speed(tmp_path) == without_speed(trained.directory)
    ours = saved_state(tmp_path, trained.config, "latest")
    theirs = saved_state(trained.directory, trained.config, "latest")
    jax.tree.map(np.testing.assert_array_equal, ours[1], theirs[1])


@pytest.mark.slow
def test_three_saves_that_fail_end_the_run_which_then_goes_on(trained, tmp_path, monkeypatch):
    with (
        monkeypatch.context() as patch,
        pytest.raises(RunError, match="3 saves in a row") as caught,
    ):
        fail_saves(patch, {3, 4, 5})
        quietly(trained.config, tmp_path)
    assert "the checkpoint of step 20 is kept" in str(caught.value)
    assert steps_saved(tmp_path, "latest") == [18, 20]
    quietly(trained.config, tmp_path)
    assert_same_run(tmp_path, trained.directory)


@pytest.mark.slow
def test_the_last_save_has_no_next_one(trained, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(RunError, match="after step 54 is lost"):
        fail_saves(patch, range(8, 99))
        quietly(trained.config, tmp_path)
    quietly(trained.config, tmp_path)
    assert_same_run(tmp_path, trained.directory)


def test_a_full_disk_loses_no_line_of_metrics(trained, tmp_path, monkeypatch):
    lines = without_speed(trained.directory)
    writer = metrics_log.MetricsWriter(tmp_path, mirror=False)
    stream = writer._stream

    class Full:
        room = 30

        def write(self, data):
            if not self.room:
                full()
            taken, self.room = stream.write(data[: self.room]), 0
            return taken

        def __getattr__(self, name):
            return getattr(stream, name)

    with writer:
        monkeypatch.setattr(writer, "_stream", Full())
        for line in lines[:5]:
            writer.write(line["step"], {k: v for k, v in line.items() if k != "step"})
        with pytest.raises(OSError, match="No space"):
            writer.confirm()
        assert (tmp_path / "metrics.jsonl").stat().st_size == 30
        monkeypatch.setattr(writer, "_stream", stream)
        writer.confirm()
    assert without_speed(tmp_path) == lines[:5]
    assert writer.written.lines == 5


POISONED = [5, 29, 30, 31, 32]


def poison(monkeypatch, steps):
    """Has the steps with these numbers, from 0, find a loss that isn't finite."""
    make = loop.make_train_step

    def make_poisoned(*args):
        step = make(*args)

        def poisoned(state, batch):
            bad = jnp.isin(state.step, jnp.array(steps))
            new, sums = step(state, batch)
            kept = new.replace(params=state.params, opt_state=state.opt_state)
            new = jax.tree.map(lambda old, x: jnp.where(bad, old, x), kept, new)
            loss = jnp.where(bad, jnp.nan, sums.loss)
            return new, sums._replace(loss=loss, finite=~bad)

        return poisoned

    monkeypatch.setattr(loop, "make_train_step", make_poisoned)


def test_skipped_updates_are_counted_and_their_batches_kept(trained, tmp_path, monkeypatch):
    poison(monkeypatch, POISONED)
    said = quietly(trained.config, tmp_path)
    assert said.count("no update is made") == len(POISONED)
    assert "step 6: the loss is nan" in said
    lines = [x for x in read_metrics(tmp_path) if "train/loss" in x]
    assert all(math.isfinite(x["train/loss"]) for x in lines)
    assert [x["train/skipped"] for x in lines] == [1, 1, 1, 1, 5, 5, 5, 5, 5]
    for number in POISONED:
        kept = json.loads((tmp_path / "skipped" / f"{number:08d}.json").read_text())
        assert (kept["batch"], kept["loss"]) == (number, "nan")
        assert 0 < len(kept["sentences"]) <= trained.config.train.batch_size
        for sentence in kept["sentences"]:
            assert sentence["target"] == " ".join(sentence["source"].upper())
    # The schedule counts updates: it is that of a run which never saw these batches.
    plain = [x["train/learning_rate"] for x in read_metrics(trained.directory) if "train/loss" in x]
    assert lines[0]["train/learning_rate"] > plain[0]
    assert all(x["train/learning_rate"] > y for x, y in zip(lines[5:], plain[5:], strict=True))


@pytest.mark.slow
def test_too_many_skipped_updates_in_a_row_end_the_run(trained, tmp_path, monkeypatch):
    config = tiny.config(trained.config.data.source)
    config.train.max_skipped = 3
    with monkeypatch.context() as patch, pytest.raises(RunError) as caught:
        poison(patch, POISONED)
        quietly(config, tmp_path)
    assert "3 steps in a row (the last is 32) gave no finite gradient" in str(caught.value)
    assert "lower train.learning_rate" in str(caught.value)
    assert steps_saved(tmp_path, "latest")[-1] == 27
    assert len(list((tmp_path / "skipped").iterdir())) == 4
    # With the cause gone it goes on.
    assert "resuming from step 27" in quietly(config, tmp_path)
    assert steps_saved(tmp_path, "latest")[-1] == 60


def test_more_steps_and_another_interval_go_on_from_the_end(trained, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(trained.directory, directory)
    config = tiny.config(trained.config.data.source)
    config.train.steps, config.train.eval_every, config.train.checkpoint_every = 70, 5, 7
    config.train.learning_rate = 1e-3
    said = quietly(config, directory)
    assert "train.learning_rate changes from 0.02 to 0.001 from here on" in said
    assert "resuming from step 60" in said
    assert [x["step"] for x in read_metrics(directory) if "dev/per" in x] == [20, 40, 60, 65, 70]
    assert read_starts(directory)[1]["changed"] == {
        "train.steps": [60, 70],
        "train.eval_every": [20, 5],
        "train.checkpoint_every": [9, 7],
        "train.learning_rate": [0.02, 0.001],
    }
    assert workdir.read_config(directory) == trained.config
    # Back to fewer steps than there are: nothing is left to do.
    said = quietly(trained.config, directory)
    assert "compiling" not in said
    assert steps_saved(directory, "latest")[-1] == 70


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_text_that_has_changed_is_refused_on_resume(split, trained, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(trained.directory, directory)
    path = Path(trained.config.data.source.removeprefix("tsv:")) / f"{split}.tsv"
    text, before = path.read_text(), tree_hash(directory)
    path.write_text(text + "abc\tA B C\n")
    said = rf"the text of the split {split} isn't what this run was"
    try:
        with pytest.raises(InputError, match=said):
            quietly(trained.config, directory)
    finally:
        path.write_text(text)
    assert tree_hash(directory) == before


def test_a_new_run_begins_with_the_best_parameters_of_another(trained, tmp_path):
    config = tiny.config(trained.config.data.source)
    config.seed = 5
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        train(config, tmp_path / "run", [], trained.directory)
    first, random = (
        next(x["train/loss"] for x in read_metrics(directory) if "train/loss" in x)
        for directory in (tmp_path / "run", trained.directory)
    )
    assert first < random - 0.5
    (start,) = read_starts(tmp_path / "run")
    result = json.loads((trained.directory / "result.json").read_text())
    assert start["init_from"] == {"workdir": str(trained.directory), "step": result["step"]}
    files = [path / "vocabulary" / "source.json" for path in (trained.directory, tmp_path / "run")]
    assert files[0].read_bytes() == files[1].read_bytes()
    # The same command again goes on with the run itself.
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        train(config, tmp_path / "run", [], trained.directory)
    step = config.train.steps
    said = f"--init_from={trained.directory} is for a new run; this one goes on from step {step}"
    assert err.getvalue().count(said) == 1
    assert [x["init_from"] for x in read_starts(tmp_path / "run")][1] is None


def test_another_runs_parameters_must_fit(trained, tmp_path):
    config = tiny.config(trained.config.data.source)
    config.model.embedding, config.data.vocabulary.size = 8, 20
    with pytest.raises(InputError) as caught:
        train(config, tmp_path / "run", [], trained.directory)
    assert "data.vocabulary.size is 0 there and 20 here; model.embedding is 16 there and 8" in str(
        caught.value
    )
    with pytest.raises(InputError, match=r"--init_from=.*no config\.json here"):
        train(config, tmp_path / "run", [], tmp_path / "none")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {workdir.LOCK}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place):
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))


def test_a_disk_that_is_full_for_a_while_costs_nothing(trained, small_disk, monkeypatch):
    with monkeypatch.context() as patch:
        after(patch, Checkpoints, "save", 4, lambda: fill(small_disk))
        after(patch, Checkpoints, "save", 6, (small_disk / "filler").unlink)
        said = quietly(trained.config, small_disk / "run")
    assert said.count("No space left on device") == said.count("the next save tries again") == 2
    assert without_speed(small_disk / "run") == without_speed(trained.directory)
    ours = saved_state(small_disk / "run", trained.config, "latest")
    theirs = saved_state(trained.directory, trained.config, "latest")
    jax.tree.map(np.testing.assert_array_equal, ours[1], theirs[1])


@pytest.mark.slow
def test_a_disk_that_stays_full_ends_the_run_which_then_goes_on(trained, small_disk, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(RunError, match="saves in a row failed"):
        after(patch, Checkpoints, "save", 4, lambda: fill(small_disk))
        quietly(trained.config, small_disk / "run")
    (small_disk / "filler").unlink()
    quietly(trained.config, small_disk / "run")
    assert_same_run(small_disk / "run", trained.directory)
