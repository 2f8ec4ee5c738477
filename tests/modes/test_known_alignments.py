"""Models trained where every word's source position is known: row i has to be about word i."""

import functools
import io
import re
from typing import Any

import jax
import numpy as np
import optax
import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.data.datasets.synthetic import LETTERS, MARKER, CopyInsert, Reverse
from bahdanau_jax.data.gold_links import format_line
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies, build
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.given_pairs import GivenTexts
from bahdanau_jax.evaluation.trained_run import TrainedRun, make_model
from bahdanau_jax.model.seq2seq import initial_params
from bahdanau_jax.modes.align import Drawing, align
from bahdanau_jax.runtime import devices

LONGEST = 6  # letters of a source
HELD_OUT = 200  # pairs that the model doesn't see before they are aligned
BATCH, STEPS = 64, 600


@functools.cache
def pairs_of(task):
    """Short pairs of a task, different ones in random order."""
    sources = [s for s in task.sources(50_000) if len(s.split()) <= LONGEST]
    return [(source, task.target(source)) for source in sources]


def trained_on(task, query, reverse_source=False) -> TrainedRun:
    """A model that has just learnt a task: one program, a minute at most."""
    vocabulary = build("symbols", 0, [" ".join(LETTERS + MARKER)])
    config, pairs = Config(), pairs_of(task)[HELD_OUT:]
    model = config.model
    # Narrow annotations have no room for the neighbouring letters.
    model.embedding, model.encoder.units, model.decoder.units = 32, 8, 64
    model.attention.units = model.readout_units = 32
    model.initial_state, model.attention.query = "zero", query
    model.reverse_source = reverse_source
    seq2seq = make_model(config, Vocabularies(vocabulary, vocabulary))
    store = TokenStore.from_pairs([(vocabulary.encode(s), vocabulary.encode(t)) for s, t in pairs])
    schedule = optax.warmup_cosine_decay_schedule(0, 1e-2, 40, STEPS)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(schedule))

    @jax.jit
    def step(params, state, source, target):
        def loss(params):
            nll: Any = seq2seq.apply({"params": params}, source, target, method="target_nll")
            return nll.sum()

        gradient = jax.tree.map(lambda g: g / BATCH, jax.grad(loss)(params))
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state

    params = initial_params(seq2seq, jax.random.key(0))
    state = optimizer.init(params)
    draw = np.random.default_rng(0)
    for _ in range(STEPS):
        chosen = draw.integers(len(pairs), size=BATCH)
        source = store.sources(chosen, BATCH, LONGEST + 1)
        params, state = step(params, state, source, store.targets(chosen, BATCH, 2 * LONGEST + 1))
    evaluator = Evaluator(seq2seq, config, Vocabularies(vocabulary, vocabulary))
    return TrainedRun(config, STEPS, devices.replicate(params), evaluator)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["previous", "intermediate", "current"])
@pytest.mark.parametrize("task", [Reverse, CopyInsert])
def test_links_are_those_that_are_known(task, query, tmp_path, capsys):
    check_links(task, trained_on(task, query), tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Reverse, CopyInsert])
def test_links_of_a_source_that_is_read_in_reverse_are_those_of_the_text(task, tmp_path, capsys):
    check_links(task, trained_on(task, "previous", reverse_source=True), tmp_path, capsys)


def check_links(task, run: TrainedRun, tmp_path, capsys) -> None:
    pairs = pairs_of(task)[:HELD_OUT]
    known = [format_line((i, j) for j, i in enumerate(task.alignment(s))) for s, _ in pairs]
    (tmp_path / "gold").write_text("\n".join(known) + "\n")
    texts = GivenTexts(pairs).with_gold(run, str(tmp_path / "gold"))
    align(run, texts, io.StringIO(), Drawing(tmp_path, 0))
    (error_rate,) = re.findall(r"AER ([\d.]+) %", capsys.readouterr().err)
    assert float(error_rate) < 5
