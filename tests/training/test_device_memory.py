import jax
import jax.numpy as jnp
import pytest

from bahdanau_jax.errors import InputError
from bahdanau_jax.training.device_memory import StepMemory, capacity, check_fits, planned


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
