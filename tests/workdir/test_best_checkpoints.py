"""The best checkpoints: which are kept, in which order, and the mean of them."""

import math
import random
import shutil

import jax
import numpy as np
import pytest
import tiny
from killing import train_until_killed
from same_run import assert_same_run, quietly, result_of, steps_saved

from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.fields import with_values
from bahdanau_jax.training.record import LoopState
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.metrics_log import read_metrics
from bahdanau_jax.workdir.selection import Average, parse_selection, restore_selected


def state(value):
    return {"params": {"w": np.full(3, value, np.float32)}}


TEMPLATE = jax.eval_shape(lambda: state(0.0))


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("keep", [1, 2, 4])
def test_the_ranking_is_the_sorted_list_of_all_values_cut_off(keep, higher):
    chance = np.random.default_rng(keep)
    values = [float(x) for x in chance.integers(0, 6, 40)]  # with many that are equal
    values[::7] = [math.nan] * len(values[::7])
    loop, seen = LoopState(), []
    for step, value in enumerate(values, 1):
        loop.judge(value, step, higher, keep)
        if not math.isnan(value):
            seen.append((-value if higher else value, step))
        expected = [step for _, step in sorted(seen)[:keep]]
        assert [step for _, step in loop.ranking] == expected
        assert loop.best_step == (expected[0] if expected else 0)


def test_the_best_few_are_kept_and_named_in_their_order(tmp_path):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for step, best in [(1, [1]), (2, [2, 1]), (3, [2, 3]), (4, []), (5, [2, 5])]:
            checkpoints.save(step, state(step), {}, best)
            checkpoints.wait()
            if best:
                assert checkpoints.best_steps() == best
                assert sorted(int(x.name) for x in (tmp_path / "best").iterdir()) == sorted(best)
        assert checkpoints.restore(TEMPLATE, "best").step == 2
        mean = restore_selected(checkpoints, TEMPLATE["params"], Average(2, best=True))
        np.testing.assert_array_equal(mean.state["w"], np.full(3, 3.5))
        assert mean.step == 2
    # Another process knows the order from the files.
    with Checkpoints(tmp_path) as again:
        assert again.best_steps() == [2, 5]


def test_of_the_best_a_damaged_one_gives_way_to_the_next(tmp_path):
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for step, best in [(1, [1]), (2, [1, 2]), (3, [])]:
            checkpoints.save(step, state(step), {}, best)
        checkpoints.wait()
        (tmp_path / "best" / "00000001" / "_CHECKPOINT_METADATA").unlink()
        assert checkpoints.restore(TEMPLATE, "best").step == 2
        with pytest.raises(InputError, match="damaged"):
            restore_selected(checkpoints, TEMPLATE["params"], Average(2, best=True))


def test_more_of_the_best_than_are_kept_are_refused(tmp_path):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state(1), {}, [1])
        with pytest.raises(
            InputError, match=r"best:2 needs 2 best .* train\.keep_best .* there: 1"
        ):
            restore_selected(checkpoints, TEMPLATE["params"], parse_selection("best:2"))


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    """A run that kept three, and its configuration; a run that kept one has the same figures."""
    config = tiny.config(corpus)
    config.train.eval_every, config.train.keep_best, config.train.keep = 8, 3, 1
    directory = tmp_path_factory.mktemp("best") / "run"
    quietly(config, directory)
    return config, directory


def test_a_run_keeps_those_with_the_best_figures(run):
    _, directory = run
    figures = [
        (line["dev/per"], line["step"]) for line in read_metrics(directory) if "dev/per" in line
    ]
    assert len(figures) > 5
    best = [step for _, step in sorted(figures)[:3]]
    assert steps_saved(directory, "best") == sorted(best)
    assert result_of(directory)["step"] == best[0]
    with Checkpoints(directory / "checkpoints") as checkpoints:
        assert checkpoints.best_steps() == best
    mean = open_run(directory, parse_selection("best:3")).params
    each = [open_run(directory, step).params for step in best]
    jax.tree.map(
        lambda x, *leaves: np.testing.assert_allclose(x, np.mean(leaves, axis=0), atol=1e-6),
        mean,
        *each,
    )


@pytest.mark.slow
def test_a_run_that_is_killed_keeps_the_same(run, tmp_path):
    config, whole = run
    chance, number = random.Random(20), 0
    while number < 12:
        moment, delay = chance.randrange(20, 120), chance.uniform(0, 0.02)
        if train_until_killed(config, tmp_path / "run", moment, delay):
            number += 1
            continue
        assert_same_run(tmp_path / "run", whole)
        assert steps_saved(tmp_path / "run", "best") == steps_saved(whole, "best")
        shutil.rmtree(tmp_path / "run")
    quietly(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", whole)
    assert steps_saved(tmp_path / "run", "best") == steps_saved(whole, "best")


def test_what_is_kept_may_change_when_a_run_goes_on(run, tmp_path):
    config, whole = run
    shutil.copytree(whole, tmp_path / "run")
    more = with_values(config, {"train.keep_best": 2, "train.steps": 70})
    quietly(more, tmp_path / "run")
    figures = [
        (line["dev/per"], line["step"])
        for line in read_metrics(tmp_path / "run")
        if "dev/per" in line
    ]
    best = [step for _, step in sorted(figures)[:2]]
    with Checkpoints(tmp_path / "run" / "checkpoints") as checkpoints:
        assert checkpoints.best_steps()[:2] == best
