"""The loop's state as a checkpoint holds it."""

import dataclasses

import pytest
import tiny
from same_run import quietly

from bahdanau_jax.errors import InputError
from bahdanau_jax.training.record import LoopState
from bahdanau_jax.workdir.metrics_log import read_metrics


@pytest.mark.parametrize(
    "progress",
    [{"unknown": 1}, {"best": "1"}, {"lines": None}, {"step": []}, {"skipped": True}],
)
def test_progress_of_another_form_is_refused(progress):
    with pytest.raises(InputError, match=next(iter(progress))):
        LoopState.from_saved(progress)


@pytest.mark.parametrize("best", [None, 1.5, float("inf")])
def test_progress_comes_back_as_it_was(best):
    state = LoopState(best=best, lines=3, loss=0.5)
    assert LoopState.from_saved(dataclasses.asdict(state)) == state
    assert LoopState.from_saved({}) == LoopState()


def test_the_coverage_loss_has_a_figure_of_its_own_and_is_no_part_of_the_likelihood(tmp_path):
    config = tiny.config(tiny.write_corpus(tmp_path / "corpus"))
    config.train.steps, config.train.log_every, config.train.eval_every = 8, 4, 8
    config.train.label_smoothing, config.train.coverage = 0.0, 0.5
    quietly(config, tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run") if "train/loss" in line]
    assert len(lines) == 2
    for line in lines:
        assert line["train/coverage"] > 0.1
        wanted = line["train/nll_per_token"] + 0.5 * line["train/coverage"]
        assert line["train/loss"] == pytest.approx(wanted, rel=1e-5)


def test_no_figure_is_written_of_a_loss_that_does_not_count(trained):
    assert not any("train/coverage" in line for line in read_metrics(trained.directory))
