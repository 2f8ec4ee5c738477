"""What can be seen of a configuration without training: what it reads, computes and decides.

Programs are compared as traced, without what no result needs; the loop is the real one, around a
step that computes nothing.
"""

import contextlib
import dataclasses
import functools
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval
from same_run import result_of, without_speed

from bahdanau_jax.config import Config, DataConfig
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.evaluation.decoding import Output, Search
from bahdanau_jax.evaluation.evaluator import Evaluator, Likelihood, Measured
from bahdanau_jax.evaluation.metrics import Scoring, figures
from bahdanau_jax.fields import from_json, to_json
from bahdanau_jax.model.dropout import Noise, Rates
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import devices
from bahdanau_jax.search.beam import search
from bahdanau_jax.sweeps.tuning import metric_of
from bahdanau_jax.training.loop import Program, Trainer
from bahdanau_jax.training.member import Member
from bahdanau_jax.training.optimizer import PlateauState, make_optimizer
from bahdanau_jax.training.step import TrainState, TrainSums, create_state, make_train_step
from bahdanau_jax.training.train import train_members
from bahdanau_jax.workdir.checkpoints import Checkpoints

SOURCE_SIZE, TARGET_SIZE = 9, 11
NOT_FINITE = 0  # the batch that gives no gradient


def remembered(*sections: str) -> Callable:
    """Has a function of a configuration see these sections alone, and computed once for each."""

    def decorate(observe: Callable[..., Any]) -> Callable[..., Any]:
        @functools.cache
        def from_text(text: str, *further: Any) -> Any:
            return observe(from_json(text), *further)

        def of(config: Config, *further: Any) -> Any:
            seen = Config(**{name: getattr(config, name) for name in sections})
            return from_text(to_json(seen), *further)

        return of

    return decorate


def needed(function: Callable, *arguments: Any, axis: bool = False) -> tuple[str, Any]:
    """Traces a function, on one device where it needs the axis of devices.

    Returns:
      Its program as text, without what none of its results needs; and its results' shapes.
    """
    axes: Any = {"axis_env": [(devices.AXIS, 1)]} if axis else {}
    closed, shapes = jax.make_jaxpr(function, return_shape=True, **axes)(*arguments)
    every = [True] * len(closed.jaxpr.outvars)
    program, _ = partial_eval.dce_jaxpr(closed.jaxpr, every, instantiate=True)
    return f"{program}\n{closed.consts}", shapes


@remembered("data", "train")
def reading(config: Config) -> Any:
    """Returns vocabularies, pairs, two epochs' batches and the steps of a run, or a refusal."""
    try:
        data = open_data(config.data, None, lambda _: None)
        (dev,) = data.training_splits()
        trainer = _trainer(config, data)
    except InputError as error:
        return str(error)
    batcher = trainer.batcher
    batches = [batcher.batch(k) for k in range(2 * batcher.batches_per_epoch)]
    read = [[x if x is None else x.tolist() for x in batch] for batch in batches]
    return data.vocabularies.fingerprint, dev.examples, read, trainer.total


@remembered("model")
def modelling(config: Config) -> str:
    """Returns how parameters begin, and how the loss is computed from them."""
    model = Seq2Seq(config.model, SOURCE_SIZE, TARGET_SIZE)
    create = functools.partial(initial_params, model)
    key = jax.random.key(0)
    noise = Noise(jnp.zeros(4, jnp.uint32), Rates(*[0.1] * len(Rates._fields)))
    batch = _batch()

    def loss(params: dict) -> Any:
        sides = batch.source, batch.target
        return model.apply({"params": params}, *sides, noise, 0.1, method="loss_sums")

    first, params = needed(create, key)
    return f"{first}\n{needed(loss, params)[0]}"


def stepping(config: Config) -> str:
    """Returns the first state and the training step."""
    read = reading(config)
    return _step(config, read if isinstance(read, str) else read[-1])


@remembered("seed", "model", "train")
def _step(config: Config, steps: int | str) -> str:
    if isinstance(steps, str):
        return steps
    model = Seq2Seq(config.model, SOURCE_SIZE, TARGET_SIZE)
    optimizer = make_optimizer(config.train, steps)
    create = functools.partial(create_state, model, optimizer, config.seed, config.train.average)
    first, state = needed(create)
    step, _ = needed(make_train_step(model, optimizer, config.train), state, _batch(), axis=True)
    return f"{first}\n{step}"


@remembered("model", "decode")
def searching(config: Config) -> Any:
    """Returns what the search is asked for, and its program."""
    model = Seq2Seq(config.model, SOURCE_SIZE, TARGET_SIZE)
    params = jax.eval_shape(functools.partial(initial_params, model), jax.random.key(0))
    asked = []

    class Asked(Search):
        def _compiled(self, longest: int, nbest: int, record: bool) -> Callable:
            def found(params: dict, placed: Any) -> Any:
                sentences = jax.tree.map(lambda x: x[0], placed)  # of the first device
                run = functools.partial(search, model, config=config.decode, longest=longest)
                run = functools.partial(run, nbest=nbest, record=record)
                asked.append([np.asarray(x).tolist() for x in sentences])
                asked.append(needed(lambda params: run(params, sentences=sentences), params)[0])
                raise _Seen

            return found

    ids = [([5, 4, 6, 7], []), ([4, 5, 4, 5, 6, 7], []), ([6, 5, 4, 4, 4], [])]
    with contextlib.suppress(_Seen):
        list(Asked(model, config.decode).stream(params, TokenStore.from_pairs(ids)))
    return asked


class _Seen(Exception):  # noqa: N818 (no error)
    pass


def deciding(config: Config) -> Any:
    """Returns what the loop decides, writes and prints around a step that computes nothing."""
    read = repr(reading(config))
    if read not in _READ:
        _READ[read] = config.data
    return _run(dataclasses.replace(config, data=_READ[read]))


# Of data sections that read the same, the first: the loop sees only what is read.
_READ: dict[str, DataConfig] = {}


@remembered("data", "train", "evaluation")
def _run(config: Config) -> Any:
    saved: list[tuple[int, list[int]]] = []
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        directory, refused = Path(scratch) / "run", ""
        for patch in _stand_ins(saved):
            stack.enter_context(patch)
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            train_members([Member(config, directory, [])], _counting_program)
        except (InputError, RunError) as error:
            refused = str(error).replace(scratch, "")
        rows = without_speed(directory) if (directory / "metrics.jsonl").exists() else []
        result = result_of(directory) if not refused else {}
        kept = sorted(path.name for path in directory.glob("checkpoints/*/*"))
        return refused, saved, kept, rows, result, out.getvalue()


# From the quickest to the slowest: the first that differs will do.
def scoring(config: Config) -> dict[str, float | str]:
    """Returns the figures of outputs that are nearly right."""
    texts, references = ["It is here, now.", "a b c d e"], [["It is here: now!"], ["a b c d f"]]
    return figures(Scoring.of(config), texts, references)


OBSERVATIONS: dict[str, Callable[[Config], Any]] = {
    "what is read": reading,
    "the model": modelling,
    "the search": searching,
    "the training step": stepping,
    "the loop": deciding,
    "the figures": scoring,
    "what a tuner goes by": lambda config: metric_of(None, config),
}


def _trainer(config: Config, data: Any) -> Trainer:
    with contextlib.redirect_stderr(io.StringIO()):
        return Trainer([Member(config, Path("unused"), [])], data, _counting_program)


def _batch() -> Batch:
    sides = np.full((4, 3), 4, np.int32), np.full((4, 5), 4, np.int32)
    return Batch(*sides, np.full((4, 5, 3), 1 / 3, np.float32))


def _counting_program(model: Any, configs: Any, steps: int) -> Program:
    """Returns a program whose only parameter is the number of updates."""
    del model, configs, steps

    def create() -> TrainState:
        zero = jnp.zeros((), jnp.int32)
        return TrainState(zero, {"updates": zero}, PlateauState(jnp.ones(())), jax.random.key(0))

    def step(state: TrainState, batch: Any) -> tuple[TrainState, TrainSums]:
        finite = state.step != NOT_FINITE
        total = batch.source.sum().astype(jnp.float32)
        params = {"updates": state.params["updates"] + 1}
        state = state.replace(step=state.step + 1, params=params)  # type: ignore[attr-defined]
        return state, TrainSums(total, total, jnp.float32(1), jnp.float32(1), finite, {})

    return Program(create, step, lambda parts: parts[0], lambda states, _: states)


def _stand_ins(saved: list[tuple[int, list[int]]]) -> list[Any]:
    """Returns what replaces the model, and what would take long, while the loop runs.

    By the likelihood the second step is the best one, by the outputs the fourth.
    """
    save = Checkpoints.save

    def noted(self: Checkpoints, step: int, state: Any, progress: Any, best: Any) -> None:
        saved.append((step, list(best)))
        save(self, step, state, progress, best)

    def measure(self: Evaluator, params: dict, split: Any) -> Measured:
        updates, target = int(params["updates"]), self.vocabularies.target
        nll = np.full(len(split.pairs), 1.0 + abs(updates - 2))
        outputs, right = [], 5 - abs(updates - 4)
        for number, example in enumerate(split.examples):
            tokens = target.encode(example.references[0]) if number < right else [4]
            alignment = np.full((len(tokens) + 1, 2), 0.5, np.float32)
            outputs.append(Output(tokens, 0.0, alignment, True, 0.0))
        return Measured(Likelihood(nll, np.ones(len(nll), np.int64)), outputs)

    return [
        mock.patch.object(Checkpoints, "save", noted),
        mock.patch.object(Evaluator, "measure", measure),
        mock.patch.object(evaluation_report, "write_parts"),
        mock.patch.object(evaluation_report, "print_parts"),
        mock.patch.object(evaluation_report, "draw"),
    ]
