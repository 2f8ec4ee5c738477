"""Running a trained model over a split: likelihood of the references, outputs, and their scores."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import Array

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import evaluation_batches
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation import alignment_measures, metrics
from bahdanau_jax.evaluation.decoding import Output, Search
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.runtime.precision import precisely
from bahdanau_jax.special_ids import PAD

NOTHING = Output([], 0.0, np.zeros((0, 1), np.float32), True, 0.0)  # for an empty source


class ExampleSums(NamedTuple):
    """Teacher-forced figures, one an example."""

    nll: Array  # Σ_i -log p(y_i), nats, float32[B]
    tokens: Array  # real target tokens, int32[B]


class Likelihood(NamedTuple):
    """How likely given targets are, one entry a pair."""

    nll: np.ndarray  # Σ_i -log p(y_i), nats, float64[N]
    tokens: np.ndarray  # end mark counted, int64[N]


class Measured(NamedTuple):
    """What a model made of a split."""

    likelihood: Likelihood  # of every reference, in the order of `EvaluationSplit.pairs`
    outputs: list[Output]  # of every example


def make_eval_step(model: Seq2Seq) -> Callable:
    """Returns the per-device function `(params, batch) -> ExampleSums`, without dropout."""

    def eval_step(params, batch) -> ExampleSums:
        nll: Any = model.apply({"params": params}, batch.source, batch.target, method="target_nll")
        return ExampleSums(nll.sum(axis=-1), (batch.target != PAD).sum(axis=-1))

    return eval_step


class Evaluator:
    """A model's compiled evaluation functions.

    Attributes:
      vocabularies: of both sides.
      search: the compiled search, for more than the best output.
    """

    def __init__(
        self, model: Seq2Seq, config: Config, vocabularies: Vocabularies, members: int = 0
    ):
        """Compiles nothing yet.

        Args:
          model: the model.
          config: `decode`, `evaluation` and `train.precision` are read.
          vocabularies: for the text of outputs.
          members: models of an ensemble, whose parameters are stacked; 0 for a single model.
        """
        self.vocabularies = vocabularies
        self.search = Search(model, config.decode, members, config.train.precision)
        self._config = config
        self._eval_step = self._on_devices(make_eval_step(model))

        def attend(params, batch):
            return model.apply({"params": params}, batch.source, batch.target)[1]

        self._attend = self._on_devices(attend)

        def nll(params, batch):
            return model.apply({"params": params}, batch.source, batch.target, method="target_nll")

        self._token_nll = self._on_devices(nll)

    def _on_devices(self, function: Callable) -> Callable:
        return devices.on_devices(precisely(function, self._config.train.precision), outputs=0)

    def likelihood(self, params: dict, pairs: TokenStore) -> Likelihood:
        """Computes the likelihood of every pair's target, each exactly once.

        Args:
          params: the model's parameters, replicated.
          pairs: source and target ids.
        """
        nll, tokens = np.zeros(len(pairs)), np.zeros(len(pairs), np.int64)
        rows = self._config.decode.batch_size
        for numbers, batch in evaluation_batches(pairs, rows, multiple=jax.device_count()):
            sums = self._eval_step(params, devices.shard(batch))
            nll[numbers] = np.asarray(sums.nll).reshape(-1)[: len(numbers)]
            tokens[numbers] = np.asarray(sums.tokens).reshape(-1)[: len(numbers)]
        return Likelihood(nll, tokens)

    def alignments(self, params: dict, pairs: TokenStore) -> Iterator[tuple[int, np.ndarray]]:
        """Yields what the model attends to while it is made to write every pair's target.

        Args:
          params: the model's parameters, replicated.
          pairs: source and target ids.

        Yields:
          The pair's number, and float32[T, S]: row i is the step that predicts target token i.
          End marks are counted on both sides. The longest pairs come first.
        """
        for number, alignment in self._rows(self._attend, params, pairs):
            target, source = pairs.target_lengths[number], pairs.source_lengths[number]
            yield number, alignment[:target, :source]

    def token_log_probabilities(
        self, params: dict, pairs: TokenStore
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields every pair's number and log p of its target's tokens, in nats, `float32[T]`.

        Args:
          params: the model's parameters, replicated.
          pairs: source and target ids; the target's end mark is one of its T tokens.
        """
        for number, nll in self._rows(self._token_nll, params, pairs):
            yield number, -nll[: pairs.target_lengths[number]]

    def _rows(
        self, function: Callable, params: dict, pairs: TokenStore
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields every pair's number and its row of what a function returns for its batch."""
        rows = self._config.decode.batch_size
        for numbers, batch in evaluation_batches(pairs, rows, multiple=jax.device_count()):
            made = np.asarray(function(params, devices.shard(batch)))
            made = made.reshape(-1, *made.shape[2:])
            yield from ((int(number), made[row]) for row, number in enumerate(numbers))

    def decode(self, params: dict, sources: TokenStore) -> list[Output]:
        """Searches for an output for every source sentence; returns them in the store's order."""
        outputs: list[Output | None] = [None] * len(sources)
        for number, output in self.decode_stream(params, sources):
            outputs[number] = output
        return [output for output in outputs if output is not None]

    def decode_stream(self, params: dict, sources: TokenStore) -> Iterator[tuple[int, Output]]:
        """Yields (number in the store, output) as batches finish, the longest sentences first.

        Nothing is searched for where a source is empty: its output is empty, as `translate`'s is.
        """
        lengths = sources.source_lengths  # the end mark counted
        yield from ((int(number), NOTHING) for number in np.flatnonzero(lengths == 1))
        places = np.flatnonzero(lengths > 1)
        if len(places) < len(sources):
            rows = [sources.sources(np.array([n]), 1, int(lengths[n]))[0] for n in places]
            sources = TokenStore.from_pairs([(row[:-1].tolist(), []) for row in rows])
        for number, outputs in self.search.stream(params, sources, names=places.tolist()):
            yield int(places[number]), outputs[0]

    def text(self, output: Output) -> str:
        """Returns an output as text."""
        return self.vocabularies.target.decode(output.tokens)

    def evaluate(
        self, params: dict, split: EvaluationSplit
    ) -> tuple[dict[str, float | str], list[Output]]:
        """Computes all figures of a split.

        Args:
          params: the model's parameters, replicated.
          split: the split, whole.

        Returns:
          Figures by name, and the outputs in the split's order.
        """
        measured = self.measure(params, split)
        return self.figures(split, measured), measured.outputs

    def measure(self, params: dict, split: EvaluationSplit) -> Measured:
        """Runs the model over a split: everything that figures are computed from."""
        return Measured(self.likelihood(params, split.pairs), self.decode(params, split.sources))

    def figures(self, split: EvaluationSplit, measured: Measured) -> dict[str, float | str]:
        """Computes all figures of a split, by name, from what `measure` returns."""
        likelihood, outputs = measured
        nll_per_token = likelihood.nll.sum() / likelihood.tokens.sum()
        figures: dict[str, float | str] = {
            "nll_per_token": float(nll_per_token),
            "perplexity": math.exp(min(nll_per_token, 700.0)),
            "sentences": len(outputs),
            "unended": sum(not output.ended for output in outputs),
        }
        texts = [self.text(output) for output in outputs]
        references = [example.references for example in split.examples]
        figures |= metrics.figures(metrics.Scoring.of(self._config), texts, references)
        alignments = [output.alignment for output in outputs]
        if split.alignments is not None:
            figures["alignment_accuracy"] = alignment_measures.accuracy(
                alignments, split.alignments
            )
        return figures | alignment_measures.diagnostics(alignments, split.alignments)
