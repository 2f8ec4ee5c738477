import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime import devices
from bahdanau_jax.runtime.memory import capacity
from bahdanau_jax.training import compilation
from bahdanau_jax.training.compilation import (
    CompiledSteps,
    StepMemory,
    check_fits,
    planned,
)


class Step:
    """A step whose compilation is noted, waits for its turn, or fails."""

    def __init__(self, fails=()):
        self.compiled = []
        self.turn = threading.Semaphore(0)
        self._fails = fails

    def __call__(self, state, batch):
        raise AssertionError("what runs is what was compiled")

    def lower(self, state, batch):
        shape = (batch.source.shape[1], batch.source.shape[2], batch.target.shape[2])
        self.turn.acquire()
        self.compiled.append(shape)
        if shape in self._fails:
            raise MemoryError(f"{shape} doesn't fit")
        step = devices.on_devices(lambda s, b: (s + b.source.sum(), b.target.sum()), outputs=None)
        return step.lower(state, batch)


@pytest.fixture
def state():
    return devices.replicate(jnp.int32(3))


def test_every_shape_is_compiled_once_in_the_order_given(state):
    step = Step()
    step.turn.release(9)
    with CompiledSteps(step, state, [(4, 6, 5), (4, 2, 3), (4, 6, 5), (4, 1, 1)]) as compiled:
        batch = Batch(np.full((4, 2), 1, np.int32), np.full((4, 3), 2, np.int32))
        new, target = compiled[4, 2, 3](state, devices.shard(batch))
        _ = compiled[4, 1, 1]
    assert step.compiled == [(4, 6, 5), (4, 2, 3), (4, 1, 1)]
    assert (int(new), int(jax.device_get(target))) == (3 + 8, 24)


def test_leaving_drops_the_shapes_whose_turn_has_not_come(state):
    step = Step()
    with CompiledSteps(step, state, [(4, 4, 4), (4, 3, 3), (4, 2, 2)]) as compiled:
        step.turn.release()
        compiled.wait_for_first()
    step.turn.release(9)
    compiled._worker.shutdown(wait=True)
    # The second may have been under way; the third wasn't.
    assert step.compiled in ([(4, 4, 4)], [(4, 4, 4), (4, 3, 3)])


def test_a_shape_that_cannot_be_compiled_says_so_where_it_is_needed(state):
    step = Step(fails=[(4, 4, 4)])
    step.turn.release(9)
    with CompiledSteps(step, state, [(4, 4, 4), (4, 3, 3)]) as compiled:
        with pytest.raises(MemoryError, match="doesn't fit"):
            compiled.wait_for_first()
        assert compiled[4, 3, 3] is not None


def test_a_largest_shape_that_cannot_fit_is_refused_before_training(state, monkeypatch, capsys):
    monkeypatch.setattr(compilation, "capacity", lambda: 64)
    step = Step()
    step.turn.release(9)
    refused = pytest.raises(InputError, match=r"4 sentences of 60 and 50 .* train\.accumulate")
    with CompiledSteps(step, state, [(4, 60, 50), (4, 3, 3)]) as compiled, refused:
        compiled.wait_for_first()
    assert "GiB of a device's memory" in capsys.readouterr().err


def test_no_shape_is_no_work(state):
    with CompiledSteps(Step(), state, []) as compiled:
        compiled.wait_for_first()


def test_what_is_planned_holds_arguments_temporaries_and_results():
    def function(state, x):
        return state + (jnp.sin(x)[:, None] * jnp.cos(x)[None, :] @ x).sum(), x[:2]

    compiled = jax.jit(function, donate_argnums=(0,)).lower(jnp.zeros(1000), jnp.zeros(64))
    memory = planned(compiled.compile())
    assert memory.arguments == 4 * (1000 + 64)
    assert 0 < memory.results < 4 * 1000  # the state is written over itself
    assert memory.total == memory.arguments + memory.temporary + memory.results


def test_a_step_that_cannot_fit_is_refused_with_what_to_change():
    memory = StepMemory(2**30, 2 * 2**30, 0)
    with pytest.raises(
        InputError, match=r"64 .* 51 and 40 .* 3\.00 GiB .* 2\.00 GiB; .*accumulate"
    ):
        check_fits(memory, (64, 51, 40), 2 * 2**30)
    check_fits(memory, (64, 51, 40), 3 * 2**30)
    check_fits(memory, (64, 51, 40), None)


def test_this_machine_has_memory():
    size = capacity()
    assert size is None or size > 2**26


@pytest.mark.parametrize(
    ("units", "activations", "said"),
    [(10**9, 0, "optimiser's state need"), (1, 2**60, "a step needs more than")],
)
def test_sizes_beyond_reason_are_refused_before_the_compiler_sees_them(units, activations, said):
    params = {"W": jax.ShapeDtypeStruct((units, 3 * units), jax.numpy.float32)}
    with pytest.raises(InputError, match=said):
        compilation.check_reason({"params": params}, params, activations)


def test_least_activations_are_in_bytes_of_one_part():
    config = ModelConfig()
    config.encoder.units, config.decoder.units = 3, 5  # annotations of both directions: 6
    assert compilation.least_activations(config, (8, 10, 20), 2) == 4 * (10 * 6 + 20 * 5) * 2
