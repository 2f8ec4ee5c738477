"""The loop's state as a checkpoint holds it."""

import dataclasses

import pytest

from bahdanau_jax.errors import InputError
from bahdanau_jax.training.record import LoopState


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
