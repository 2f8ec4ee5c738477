import contextlib
import copy
import io
import os
import shutil
import signal
import time

import jax
import numpy as np
import pytest
import tiny
from launching import tree_hash
from same_run import assert_same_run, quietly, result_of, steps_saved, without_speed

from bahdanau_jax.comparison.results import read_results
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.sweeps import grid, sweep
from bahdanau_jax.sweeps.executors import LOG
from bahdanau_jax.sweeps.replicas import group_by_step, is_concluded, train_replicas
from bahdanau_jax.training.compilation import CompiledSteps
from bahdanau_jax.training.loop import Trainer
from bahdanau_jax.workdir.manifest import read_starts, write_manifest
from bahdanau_jax.workdir.metrics_log import write_result


def make_cells(source, *sweeps):
    config = tiny.config(source)
    config.train.learning_rate, config.train.steps = 3e-3, 40
    return grid.expand(config, sweeps)


def run(directory, cells, init_from=None):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        failed = train_replicas(directory, cells, [], init_from)
    return failed, err.getvalue()


@pytest.fixture(scope="module")
def replicated(corpus, tmp_path_factory):
    """Two seeds, trained in one program."""
    directory, cells = tmp_path_factory.mktemp("replicas") / "w", make_cells(corpus, "seed=0,7")
    assert run(directory, cells)[0] == []
    return directory, cells


def test_each_replica_leaves_what_its_own_run_leaves(replicated, tmp_path):
    directory, cells = replicated
    for cell in cells[1:]:
        quietly(cell.config, tmp_path / "own")
        own, mine = tmp_path / "own", directory / cell.name
        names = {path.name for path in own.iterdir()}
        assert {path.name for path in mine.iterdir()} == names | {LOG}
        assert "test/per\t" in (mine / LOG).read_text()
        theirs, ours = without_speed(own), without_speed(mine)
        assert [line["step"] for line in ours] == [line["step"] for line in theirs]
        for a, b in zip(ours, theirs, strict=True):
            assert set(a) == set(b)
            for name in a:
                if name.startswith("train/") or name.endswith("nll_per_token"):
                    assert a[name] == pytest.approx(b[name], rel=1e-3), name
        assert set(result_of(mine)) == set(result_of(own))
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, atol=2e-5, rtol=0),
            open_run(mine, "latest").params,
            open_run(own, "latest").params,
        )


def test_compare_reads_replicas_as_cells(replicated):
    directory, cells = replicated
    (configuration,) = read_results(directory).configurations
    assert [run.name for run in configuration.runs] == [cell.name for cell in cells]
    assert configuration.runs[0].values == {"seed": 0}


def snapshot(directory, cells):
    return [tree_hash(directory / cell.name) for cell in cells]


def test_finished_replicas_stay_as_they_are_when_more_are_asked_for(replicated, corpus, tmp_path):
    shutil.copytree(replicated[0], tmp_path / "w")
    before = snapshot(tmp_path / "w", replicated[1])
    more = make_cells(corpus, "seed=0,7,8")
    failed, said = run(tmp_path / "w", more)
    assert failed == []
    assert "3 replicas: 2 finished, 0 to go on, 1 to begin" in said
    assert snapshot(tmp_path / "w", replicated[1]) == before
    assert [cell.name for cell in more] == [
        entry["name"] for entry in sweep.read_sweep(tmp_path / "w")["cells"]
    ]
    every = snapshot(tmp_path / "w", more)
    assert "3 finished, 0 to go on, 0 to begin" in run(tmp_path / "w", more)[1]
    assert snapshot(tmp_path / "w", more) == every
    # With more steps they go on, each from where it stood, and not from the beginning.
    for cell in more[:2]:
        cell.config.train.steps = 48
    _, said = run(tmp_path / "w", more[:2])
    assert "resuming from step 40" in said
    assert [read_starts(tmp_path / "w" / cell.name)[-1]["step"] for cell in more[:2]] == [40, 40]


@pytest.mark.slow
def test_half_done_replicas_go_on_from_their_own_steps(replicated, corpus, tmp_path, monkeypatch):
    original = Batcher.batch
    stops = [29, 12]

    def batch(self, k):
        if k == stops[0]:
            raise Interruption
        return original(self, k)

    directory, cells = tmp_path / "w", make_cells(corpus, "seed=0,7,8")
    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "batch", batch)
        for cell in cells[:2]:
            with pytest.raises(Interruption):
                run(directory, [cell])
            stops.pop(0)
            stops.append(-1)
    latest = [max(steps_saved(directory / cell.name, "latest")) for cell in cells[:2]]
    _, said = run(directory, cells)
    assert "3 replicas: 0 finished, 2 to go on, 1 to begin" in said
    starts = [read_starts(directory / cell.name) for cell in cells]
    assert [[start["step"] for start in each] for each in starts] == [
        [0, latest[0]],
        [0, latest[1]],
        [0],
    ]
    for cell in cells[:2]:
        steps = [line["step"] for line in without_speed(directory / cell.name)]
        theirs = without_speed(replicated[0] / cell.name)
        assert steps == [line["step"] for line in theirs]


def test_what_a_later_group_has_lost_is_said_before_an_earlier_one_is_changed(
    replicated, corpus, tmp_path
):
    shutil.copytree(replicated[0], tmp_path / "w")
    cells = make_cells(corpus, "seed=0,7,8")
    for cell in cells:
        cell.config.train.steps = 48
    (tmp_path / "w" / cells[1].name / "metrics.jsonl").unlink()
    before = snapshot(tmp_path / "w", cells[:2])
    with pytest.raises(InputError, match=r"metrics\.jsonl has 0 of the"):
        run(tmp_path / "w", cells)
    assert snapshot(tmp_path / "w", cells[:2]) == before
    assert not (tmp_path / "w" / cells[2].name / "config.json").exists()
    assert [cell["name"] for cell in sweep.read_sweep(tmp_path / "w")["cells"]] == [
        cell.name for cell in cells[:2]
    ]


def test_an_extended_replica_that_was_killed_is_not_finished(replicated, tmp_path):
    place = tmp_path / "run"
    shutil.copytree(replicated[0] / replicated[1][0].name, place)
    config = copy.deepcopy(replicated[1][0].config)
    assert is_concluded(place, config)
    config.train.steps = 48
    assert not is_concluded(place, config)
    write_manifest(place, config, overrides=[], fingerprints={}, step=40)
    assert not is_concluded(place, config)
    write_result(place, result_of(place) | {"start": 2})
    assert is_concluded(place, config)


def test_members_that_stand_apart_are_grouped_by_step():
    groups = group_by_step(list("abcdef"), [[30, 20, 10], [], [40, 30], [90, 80, 30], [30], []])
    assert groups == {0: ["b", "f"], 30: ["a", "e", "c"], 90: ["d"]}


class Interruption(BaseException):
    """Not an Exception, as KeyboardInterrupt."""


@pytest.mark.slow
def test_interrupted_replicas_go_on_together_as_if_nothing_had_been(
    replicated, tmp_path, monkeypatch
):
    directory, cells = replicated
    original = Batcher.batch

    def batch(self, k):
        if k == 29:
            raise Interruption
        return original(self, k)

    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "batch", batch)
        with pytest.raises(Interruption):
            run(tmp_path, cells)
    # One of them was a save ahead when it happened.
    shutil.rmtree(max((tmp_path / cells[1].name / "checkpoints" / "latest").iterdir()))
    _, said = run(tmp_path, cells)
    assert "resuming from step 20" in said
    for cell in cells:
        assert_same_run(tmp_path / cell.name, directory / cell.name)


def test_a_replica_that_patience_ends_leaves_the_others_alone(corpus, tmp_path, monkeypatch):
    cells = make_cells(corpus, "seed=0,7")
    for cell in cells:
        cell.config.train.patience, cell.config.train.eval_every = 1, 10
    evaluate = Trainer._evaluate

    def judged(self, member, *args):
        better = evaluate(self, member, *args)
        if member.config.seed == 7 and member.record.evaluated == 20:
            member.record.without_better = 1
        elif member.config.seed == 0:
            member.record.without_better = 0
        return better

    monkeypatch.setattr(Trainer, "_evaluate", judged)
    run(tmp_path, cells)
    evaluations = [
        [line["step"] for line in without_speed(tmp_path / cell.name) if "dev/per" in line]
        for cell in cells
    ]
    assert evaluations == [[10, 20, 30, 40], [10, 20]]
    assert all(sweep.is_finished(tmp_path / cell.name) for cell in cells)


@pytest.mark.slow
def test_a_replica_that_diverges_is_a_failed_cell_among_others(corpus, tmp_path):
    cells = make_cells(corpus, "learning_rate=0.003,2e9")
    for cell in cells:
        cell.config.train.max_skipped, cell.config.train.clip_norm = 3, 0.0
    failed, said = run(tmp_path, cells)
    assert failed == [cells[1].name]
    assert "FAILED: 3 steps in a row" in said
    assert sweep.is_finished(tmp_path / cells[0].name)
    assert "gave no finite gradient" in str(sweep.read_failure(tmp_path / cells[1].name))


@pytest.mark.slow
def test_new_replicas_begin_with_the_best_parameters_of_another_run(trained, tmp_path):
    cells = grid.expand(tiny.config(trained.config.data.source), ["seed=5,6"])
    run(tmp_path, cells, trained.directory)
    for cell in cells:
        first, random = (
            next(line["train/loss"] for line in without_speed(directory) if "train/loss" in line)
            for directory in (tmp_path / cell.name, trained.directory)
        )
        assert first < random - 0.5
        (start,) = read_starts(tmp_path / cell.name)
        best = result_of(trained.directory)["step"]
        assert start["init_from"] == {"workdir": str(trained.directory), "step": best}


def test_a_notice_while_a_shape_compiles_is_answered_at_once(corpus, tmp_path, monkeypatch):
    """The second shape's compilation never ends: replicas don't wait for it, and save."""
    cells, notice = make_cells(corpus, "seed=0,7"), signal.SIGTERM
    get, asked = CompiledSteps.__getitem__, set()

    def compile_for_ever(self, shape):
        asked.add(shape)
        if len(asked) > 1:
            os.kill(os.getpid(), notice)
            time.sleep(60)
        return get(self, shape)

    began = time.monotonic()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(CompiledSteps, "__getitem__", compile_for_ever)
        run(tmp_path, cells)
    assert time.monotonic() - began < 50
    (step,) = {max(steps_saved(tmp_path / cell.name, "latest")) for cell in cells}
    assert step > 0


def test_cells_that_are_no_one_program_claim_nothing(corpus, tmp_path):
    with pytest.raises(InputError, match=r"model\.attention\.units can't differ"):
        run(tmp_path / "w", make_cells(corpus, "attention.units=8,16"))
    assert not (tmp_path / "w").exists()
