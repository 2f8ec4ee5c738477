"""Every boolean and every choice of the model changes what it computes.

A boolean does so wherever validate() takes both its values: a residual connection, say, must not be
there for one moment of the query and be lost for another. A choice does so in one form of the model
that takes it.
"""

import functools
import itertools
import zlib
from typing import Any

import combinations
import jax
import numpy as np
import pytest
from combinations import GROUPS, SOURCE_SIZE, TARGET_SIZE, allowed, build

from bahdanau_jax import fields
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.special_ids import BOS

SOURCE = np.array([[4, 5, 6, 7, 2], [5, 4, 2, 0, 0]])
TARGET = np.array([[6, 4, 7], [5, 8, 2]])
FIRST = {option: values[0] for group in GROUPS for option, values in group.items()}
# What must be on for an option's other values to be possible at all.
NEEDS: dict[str, dict[str, Any]] = {
    "attention.scale": {"attention.score": "general"},
    "readout_parts": {"readout": "tanh"},
    "forget_bias": {"cell": "lstm"},
    "residual": {"encoder.layers": 1, "decoder.layers": 2},
    "attention.renormalize": {"attention.window": "local_p"},
}
SWITCHES = tuple(option for option, value in FIRST.items() if isinstance(value, bool))
CHOSEN = tuple(
    (option, value)
    for group in GROUPS
    for option, values in group.items()
    for value in values[1:]
    if option not in SWITCHES
)
QUERIES, READOUTS = GROUPS[1]["attention.query"], GROUPS[1]["readout"]
FORMS = tuple(itertools.product(QUERIES, READOUTS))
# Each switch in a third of the forms, every query and every readout among them; the rest are slow.
IN_FORMS = tuple(
    pytest.param(
        switch, query, readout, marks=() if (i + j + k) % len(QUERIES) == 0 else pytest.mark.slow
    )
    for i, switch in enumerate(SWITCHES)
    for j, query in enumerate(QUERIES)
    for k, readout in enumerate(READOUTS)
)


def test_the_switches_are_all_booleans_of_the_model() -> None:
    booleans = {
        path.removeprefix("model.")
        for path in fields.field_paths()
        if path.startswith("model.") and fields.field_type(path) is bool
    }
    assert booleans == set(SWITCHES)


def generic(path, leaf) -> np.ndarray:
    """Returns values that depend on a parameter's name and shape alone."""
    seed = zlib.crc32(f"{jax.tree_util.keystr(path)} {leaf.shape}".encode())
    return np.random.default_rng(seed).normal(size=leaf.shape).astype(np.float32)


def logits(config: ModelConfig) -> np.ndarray:
    """Returns the logits of single steps under generic parameters."""
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    shapes: Any = jax.eval_shape(lambda: model.init(jax.random.key(0), SOURCE, TARGET))["params"]
    params = jax.tree_util.tree_map_with_path(generic, shapes)
    memory: Any = model.apply({"params": params}, SOURCE, method="encode")
    state: Any = model.apply({"params": params}, memory, method="initial_state")
    previous, outputs = np.full(len(TARGET), BOS), []
    for i in range(TARGET.shape[1]):  # the second step is the first that reads a state
        step: Any = model.apply({"params": params}, state, previous, memory, method="decode_step")
        state, step_logits, _ = step
        outputs.append(step_logits)
        previous = TARGET[:, i]
    return np.stack(outputs)


@functools.cache
def of_form(values: tuple[tuple[str, Any], ...]) -> np.ndarray:
    return logits(build(dict(values)))


@pytest.mark.parametrize(("switch", "query", "readout"), IN_FORMS)
def test_a_switch_changes_the_logits(switch, query, readout) -> None:
    form = {"attention.query": query, "readout": readout}
    values = combinations.joined([FIRST | NEEDS.get(switch, {}) | form])
    off, on = ({**values, switch: value} for value in combinations.BOTH)
    if not (allowed(build(off)) and allowed(build(on))):
        pytest.skip("one of the two is refused")
    assert not np.allclose(of_form(tuple(off.items())), of_form(tuple(on.items())), atol=1e-4)


@pytest.mark.parametrize(("option", "value"), CHOSEN)
def test_a_choice_changes_the_logits(option: str, value: Any) -> None:
    pairs = []
    for query, readout in FORMS:
        form = {"attention.query": query, "readout": readout, **NEEDS.get(option, {})}
        first = {**combinations.joined([FIRST | form]), option: FIRST[option]}
        pairs.append((first, {**first, option: value}))
    first, other = next(pair for pair in pairs if all(allowed(build(values)) for values in pair))
    one, two = of_form(tuple(first.items())), of_form(tuple(other.items()))
    assert one.shape != two.shape or not np.allclose(one, two, atol=1e-4)
