"""Decoding a store of sentences: batches through the compiled search, hypotheses out of it."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.data.batching import decoding_batches
from bahdanau_jax.data.shapes import round_up
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.runtime.memory import capacity, gibibytes
from bahdanau_jax.runtime.precision import precisely
from bahdanau_jax.search.beam import Hypotheses, Sentences, search
from bahdanau_jax.special_ids import EOS, PAD

ALIGNMENT_BYTES = 1 << 30  # a batch of very long sentences whose alignments need more has none


class Output(NamedTuple):
    """What the model produced for one source sentence."""

    tokens: list[int]  # without the end mark
    log_probability: float  # nats, end mark counted
    alignment: np.ndarray  # float32[T, S]; a row for the end mark too, where it was reached.
    # [T, 0] where alignments weren't asked for, or would take too much memory
    ended: bool  # whether the end mark came before the limit
    score: float  # the log-probability with the penalties of `decode` in force


class Search:
    """A model's search, compiled once a shape."""

    def __init__(
        self, model: Seq2Seq, config: DecodeConfig, members: int = 0, precision: str = "float32"
    ):
        """Compiles nothing yet.

        Args:
          model: the model.
          config: beam, penalties and the rest; never changes the model.
          members: models of an ensemble, whose parameters are stacked; 0 for a single model.
          precision: of products, as `train.precision`.
        """
        self._model, self._config, self._members = model, config, members
        self._precision = precision

    def stream(
        self,
        params: dict,
        sources: TokenStore,
        *,
        nbest: int = 1,
        names: Sequence[int] | None = None,
        forced: bool = False,
        alignments: bool = True,
    ) -> Iterator[tuple[int, list[Output]]]:
        """Yields (number in the store, outputs) as batches finish, the longest sentences first.

        Args:
          params: the model's parameters, replicated; of an ensemble, stacked.
          sources: source ids; targets are read only where `forced`.
          nbest: outputs a sentence, the best first; fewer where the search found fewer, and an
            empty one where it found none.
          names: what the keys of sampling call each sentence; None: its number in the store.
          forced: whether outputs begin with the store's targets.
          alignments: whether they are wanted.

        Raises:
          InputError: a batch's search can't fit in a device's memory.
        """
        prefixed = int(sources.target_lengths.max(initial=1)) - 1 if forced else 0
        width = round_up(prefixed) if prefixed else 0
        running: tuple[np.ndarray, np.ndarray, Hypotheses] | None = None
        for numbers, source in decoding_batches(
            sources, self._config.batch_size, multiple=jax.device_count()
        ):
            rows, count = len(source), len(numbers)
            lengths = np.zeros(rows, np.int32)
            lengths[:count] = sources.source_lengths[numbers]
            prefix = self._prefixes(sources, numbers, rows, width)
            named = np.zeros(rows, np.int32)
            named[:count] = numbers if names is None else np.asarray(names)[numbers]
            limits = self._limit(lengths) + (prefix != PAD).sum(axis=1, dtype=np.int32)
            least = np.maximum(lengths - 1, 0) * self._config.min_length_ratio
            # Filler rows have no source, and end before the first step.
            asked: list[Any] = [source, limits, least.astype(np.int32), prefix, named]
            batch = Sentences(*asked)
            longest = self._check_fits(source.shape, nbest, width)
            needed = 4 * source.size * longest * max(nbest, self._config.beam_size)
            record = alignments and needed <= ALIGNMENT_BYTES
            found = self._compiled(longest, nbest, record)(params, devices.shard(batch))
            # The next batch is searched while the host reads this one.
            if running is not None:
                yield from _read(*running)
            running = numbers, lengths, found
        if running is not None:
            yield from _read(*running)

    def check(self, sources: TokenStore) -> None:
        """Refuses, as `stream`, sentences whose search can't fit; searches for nothing."""
        batches = decoding_batches(sources, self._config.batch_size, multiple=jax.device_count())
        for _, source in batches:
            self._check_fits(source.shape)

    def _check_fits(self, shape: tuple[int, ...], nbest: int = 1, width: int = 0) -> int:
        """Returns the most tokens of an output of a batch of sources.

        Args:
          shape: of the sources, (B, S).
          nbest: outputs a sentence.
          width: tokens that outputs begin with, at most.

        Raises:
          InputError: a device has less memory than the search keeps, at least.
        """
        decode, model = self._config, self._model
        longest = int(self._limit(np.array(shape[1]))) + width
        places = nbest if decode.temperature else decode.beam_size
        sentences = shape[0] // jax.device_count()
        annotations = shape[1] * model.config.annotation_units * 2  # of bfloat16
        scores, history = 4 * model.target_size, 8 * longest
        candidates = 0 if decode.temperature else 8 * min(places, model.target_size)
        rows = sentences * places
        needed = rows * (max(self._members, 1) * annotations + scores + history + candidates)
        limit = capacity()
        if limit is not None and needed > limit:
            raise InputError(
                f"{shape[0]} sentences of {shape[1]} tokens with {places:,} hypotheses each need "
                f"more than {gibibytes(needed)} on a device that has {gibibytes(limit)}; lower "
                "decode.beam_size or decode.batch_size"
            )
        return longest

    def _limit(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the most tokens that outputs may have, end marks counted, int32."""
        return (lengths * self._config.max_length_ratio + 10).astype(np.int32)

    @functools.cached_property
    def _functions(self) -> dict[tuple[int, int, bool], Callable]:
        return {}

    def _compiled(self, longest: int, nbest: int, record: bool) -> Callable:
        """Returns the search over all devices whose outputs have at most `longest` tokens."""
        key = (longest, nbest, record)
        if key not in self._functions:

            def found(params, sentences):
                return search(
                    self._model,
                    params,
                    sentences,
                    self._config,
                    longest=longest,
                    nbest=nbest,
                    members=self._members,
                    record=record,
                )

            self._functions[key] = devices.on_devices(precisely(found, self._precision), outputs=0)
        return self._functions[key]

    @staticmethod
    def _prefixes(sources: TokenStore, numbers: np.ndarray, rows: int, width: int) -> np.ndarray:
        """Returns what outputs begin with, without end marks, `int32[rows, width]`."""
        if not width:
            return np.zeros((rows, 0), np.int32)
        targets = sources.targets(numbers, rows, width + 1)[:, :width]
        return np.where(targets == EOS, PAD, targets)


def _read(
    numbers: np.ndarray, lengths: np.ndarray, found: Hypotheses
) -> Iterator[tuple[int, list[Output]]]:
    """Waits for a batch, and yields what was found for each of its sentences."""
    tokens, log_p, scores, alignments = (
        np.asarray(x).reshape(len(lengths), *x.shape[2:]) for x in found
    )
    for row, number in enumerate(numbers):
        yield (
            int(number),
            [
                _output(
                    tokens[row, place].tolist(),
                    float(log_p[row, place]),
                    alignments[row, place, :, : lengths[row]],
                    float(scores[row, place]),
                )
                for place in range(tokens.shape[1])
                if place == 0 or scores[row, place] > -np.inf
            ],
        )


def _output(tokens: list[int], log_p: float, alignment: np.ndarray, score: float) -> Output:
    """Cuts one hypothesis off at its end."""
    ended = EOS in tokens
    count = tokens.index(EOS) if ended else len(tokens) - tokens.count(PAD)
    return Output(tokens[:count], log_p, alignment[: count + ended], ended, score)


def alignment_json(vocabularies: Vocabularies, ids: list[int], output: Output) -> str:
    """Returns tokens, end marks among them, and the matrix as the model computed it.

    Args:
      vocabularies: of both sides.
      ids: the source's tokens.
      output: its row i is the step that produced token i.
    """
    if not ids:  # nothing was searched for
        return '{"source": [], "target": [], "alignment": []}'
    target = [*output.tokens, EOS] if output.ended else output.tokens
    return json.dumps(
        {
            "source": vocabularies.source.tokens([*ids, EOS]),
            "target": vocabularies.target.tokens(target),
            "alignment": [[round(float(x), 4) for x in row] for row in output.alignment],
        },
        ensure_ascii=False,
    )
