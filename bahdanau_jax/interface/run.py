"""A trained run that translates, scores, aligns and evaluates, from Python.

    run = load_run("runs/cmudict")
    for translation in run.translate(["hello", "goodbye"], beam_size=5):
        print(translation.text, translation.log_probability)

Only `train` writes to a run's workdir.
"""

import dataclasses
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.config import Config, DecodeConfig
from bahdanau_jax.data.corpus import normalize, source_text
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import given_pairs
from bahdanau_jax.evaluation.decoding import Output
from bahdanau_jax.evaluation.evaluator import NOTHING, Evaluator
from bahdanau_jax.evaluation.trained_run import TrainedRun, make_model, open_run, open_run_split
from bahdanau_jax.interface.results import Attended, Translation
from bahdanau_jax.lines import chunks
from bahdanau_jax.runtime import setup
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.terminal import say_nothing
from bahdanau_jax.training import train as training
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir.selection import parse_selection


def load_run(workdir: str | os.PathLike[str], checkpoint: str = "best") -> "Run":
    """Reads a trained run.

    Args:
      workdir: its workdir, as `--workdir` names it.
      checkpoint: `best`, `latest`, a number of steps, `average:N` for the mean of the N newest, or
        `best:N` for that of the N best.

    Raises:
      InputError: there is no run, no such checkpoint, or it is damaged.
    """
    setup.configure()
    selection = parse_selection(checkpoint, "checkpoint")
    return Run(open_run(Path(workdir), selection), Path(workdir))


def train(
    config: Config,
    workdir: str | os.PathLike[str],
    init_from: str | os.PathLike[str] | None = None,
) -> "Run":
    """Trains a run, or goes on with it, and returns it with its best parameters.

    Args:
      config: of the experiment, as `get_config` of an experiment file returns it.
      workdir: its workdir; made if absent. A run that was begun there goes on.
      init_from: the workdir of a run whose best parameters a new run begins with.

    Raises:
      InputError: the configuration, the data or the workdir can't be used.
      RunError: the training can't go on.
    """
    setup.configure()
    validate(config)
    training.train(config, Path(workdir), [], None if init_from is None else Path(init_from))
    return load_run(workdir)


class Run:
    """A trained run; `load_run` and `train` return it.

    Attributes:
      config: as the run was trained.
      step: updates of its parameters.
      workdir: where it lies.
    """

    def __init__(self, trained: TrainedRun, workdir: Path):
        """Compiles nothing yet.

        Args:
          trained: the run, with its parameters.
          workdir: where it lies.
        """
        self.config, self.step, self.workdir = trained.config, trained.step, workdir
        self._trained = trained
        self._searching = {_key(trained.config.decode): trained}

    def __repr__(self) -> str:
        score, query = self.config.model.attention.score, self.config.model.attention.query
        return f"<Run {self.workdir}: {score} attention, query {query}, {self.step:,} updates>"

    def translate(
        self, texts: Iterable[str], *, nbest: int = 1, **decode: Any
    ) -> Iterator[Translation]:
        """Yields what the run makes of each text, in their order, as soon as it is known.

        Args:
          texts: sentences; they are read a few at a time, so that they may be without end.
          nbest: outputs of each, at most the beam's size; those after the best are its `others`.
          **decode: fields of `Config.decode` that replace the run's, as `beam_size=5`.

        Yields:
          A translation of each text; that of a blank text is empty.

        Raises:
          TypeError: `texts` is one string, or a field of `decode` doesn't exist.
          InputError: a value isn't allowed, or the beam is too small for `nbest`.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be several strings, as [text]; this is one")
        run = self._with(decode)
        used = run.config.decode
        if nbest > used.beam_size and not used.temperature:
            raise InputError(f"nbest={nbest} needs beam_size={nbest}; it is {used.beam_size}")
        return self._translations(run, texts, nbest)

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Attended]:
        """Yields how likely the run holds each target to be, given its source, and its alignment.

        Args:
          pairs: source and target of each.
        """
        run = self._trained
        for given in given_pairs.chunks(run, pairs):
            store = given.store
            alignments = dict(run.evaluator.alignments(run.params, store))
            logs = dict(run.evaluator.token_log_probabilities(run.params, store))
            for number, ((source, target), ids) in enumerate(
                zip(given.texts, given.ids, strict=True)
            ):
                yield Attended(
                    source,
                    target,
                    run.vocabularies.source.tokens([*ids[0], EOS]),
                    run.vocabularies.target.tokens([*ids[1], EOS]),
                    logs[number],
                    alignments[number],
                )

    def evaluate(self, split: str = "test", **decode: Any) -> dict[str, float | str]:
        """Returns the figures of a split of the run's data, by name; nothing is written.

        Args:
          split: as `--split` takes it.
          **decode: fields of `Config.decode` that replace the run's.

        Raises:
          InputError: the split can't be read, or isn't the text that the run knew.
        """
        run = self._with(decode)
        examples = open_run_split(self.workdir, run.config, split, say_nothing)
        return run.evaluator.evaluate(run.params, examples)[0]

    def _with(self, decode: dict[str, Any]) -> TrainedRun:
        """Returns the run with other fields of `decode`; its compiled search is kept."""
        changed = dataclasses.replace(self.config.decode, **decode)
        if _key(changed) not in self._searching:
            config = dataclasses.replace(self.config, decode=changed)
            validate(config)
            vocabularies = self._trained.vocabularies
            evaluator = Evaluator(make_model(config, vocabularies), config, vocabularies)
            other = dataclasses.replace(self._trained, config=config, evaluator=evaluator)
            self._searching[_key(changed)] = other
        return self._searching[_key(changed)]

    @staticmethod
    def _translations(run: TrainedRun, texts: Iterable[str], nbest: int) -> Iterator[Translation]:
        source, lowercase, first = run.vocabularies.source, run.config.data.lowercase, 0
        for chunk in chunks(iter(texts), run.config.decode.batch_size, given_pairs.CHUNK):
            ids = [source.encode(source_text(normalize(text, lowercase))) for text in chunk]
            places = [place for place, sentence in enumerate(ids) if sentence]
            outputs = {place: [NOTHING] for place in range(len(chunk))}
            store = TokenStore.from_pairs([(ids[place], []) for place in places])
            names = [first + place for place in places]
            for number, made in run.evaluator.search.stream(
                run.params, store, nbest=nbest, names=names
            ):
                outputs[places[number]] = made
            logs = _log_probabilities(run, ids, outputs)
            for place, text in enumerate(chunk):
                ranked = [
                    _translation(run, text, ids[place], output, next(logs))
                    for output in outputs[place]
                ]
                yield dataclasses.replace(ranked[0], others=tuple(ranked[1:]))
            first += len(chunk)


def _log_probabilities(
    run: TrainedRun, ids: list[list[int]], outputs: dict[int, list[Output]]
) -> Iterator[np.ndarray]:
    """Yields log p of every token of each output, `float32[T]`, in their order."""
    pairs = [(ids[place], made.tokens) for place, ranked in outputs.items() for made in ranked]
    logs = dict(run.evaluator.token_log_probabilities(run.params, TokenStore.from_pairs(pairs)))
    flat = (made for ranked in outputs.values() for made in ranked)
    for number, made in enumerate(flat):
        # An output that didn't end has no end mark to be counted; an empty one was never asked for.
        count = len(made.tokens) + made.ended if made is not NOTHING else 0
        yield logs[number][:count]


def _translation(
    run: TrainedRun, text: str, ids: list[int], output: Output, logs: np.ndarray
) -> Translation:
    searched = output is not NOTHING
    ends = [EOS] if output.ended and searched else []
    return Translation(
        source=text,
        text=run.evaluator.text(output),
        source_tokens=run.vocabularies.source.tokens([*ids, EOS]),
        tokens=run.vocabularies.target.tokens([*output.tokens, *ends]),
        token_log_probabilities=logs,
        alignment=output.alignment,
        score=output.score,
        ended=output.ended,
    )


def _key(decode: DecodeConfig) -> tuple[Any, ...]:
    return dataclasses.astuple(decode)
