"""Lines in, lines out: decoding text that comes from a stream."""

import itertools
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from bahdanau_jax.data.corpus import normalize
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.lines import InOrder, chunks, read_lines
from bahdanau_jax.modes.hypothesis_lines import EMPTY, Wanted, output_lines
from bahdanau_jax.terminal import Counter, counted, say

CHUNK = 4096  # lines that are sorted by length and decoded together, at most
TEXT_ALONE = Wanted()


def translate(
    run: TrainedRun,
    lines: BinaryIO,
    out: TextIO,
    wanted: Wanted = TEXT_ALONE,
    alignments: TextIO | None = None,
    prefixes: Iterator[str] | None = None,
) -> None:
    """Writes one output for every line, in the order of the lines and as soon as it's known.

    Args:
      run: the trained model.
      lines: UTF-8 text; a line that is empty or blank gives an empty line.
      out: where outputs go.
      wanted: what is written of each.
      alignments: where alignments go; None where they aren't wanted.
      prefixes: what each line's outputs must begin with; None: anything.

    Raises:
      InputError: a line is not valid UTF-8, or there are more lines than prefixes, or fewer; what
        came before has been written. Or more outputs are asked for than the search keeps.
    """
    decode = run.config.decode
    if wanted.nbest > decode.beam_size and not decode.temperature:
        raise InputError(
            f"--nbest={wanted.nbest} needs a beam of as many hypotheses; decode.beam_size is "
            f"{decode.beam_size}: give --beam_size={wanted.nbest}"
        )
    streams = (out,) if alignments is None else (out, alignments)
    nothing = ("\n", EMPTY[wanted.alignments] + "\n")
    limit, longer, first = run.config.data.max_length, 0, 0
    with Counter("lines", out) as counter:
        for chunk in chunks(read_lines(lines), decode.batch_size, CHUNK):
            texts = [normalize(text, run.config.data.lowercase) for text in chunk]
            ids = [encode(run, text) for text in texts]
            longer += sum(len(sentence) > limit for sentence in ids)
            writer = InOrder(streams, [None if sentence else nothing for sentence in ids])
            begun = _beginnings(run, prefixes, first, len(chunk))
            places = [place for place, sentence in enumerate(ids) if sentence]
            found = run.evaluator.search.stream(
                run.params,
                TokenStore.from_pairs([(ids[place], begun[place]) for place in places]),
                nbest=max(wanted.nbest, 1),
                names=[first + place for place in places],
                forced=prefixes is not None,
                alignments=wanted.needs_alignments,
            )
            for number, outputs in found:
                place = places[number]
                writer.put(place, output_lines(run, wanted, texts[place], ids[place], outputs))
                counter.update(first + writer.written)
            first += len(chunk)
    if prefixes is not None and next(prefixes, None) is not None:
        raise InputError(
            f"--prefixes has more lines than the input, which has {first:,}; give one for each"
        )
    if longer:
        say(f"longer than the {limit} tokens that training saw at most: {counted(longer, 'line')}")


def encode(run: TrainedRun, text: str) -> list[int]:
    """Returns the ids of a line that `normalize` returned, none if it is blank."""
    return run.vocabularies.source.encode(text) if text.strip() else []


def _beginnings(
    run: TrainedRun, prefixes: Iterator[str] | None, first: int, count: int
) -> list[list[int]]:
    """Returns the ids with which the outputs of the next lines begin."""
    if prefixes is None:
        return [[]] * count
    texts = list(itertools.islice(prefixes, count))
    if len(texts) < count:
        raise InputError(
            f"--prefixes has {counted(first + len(texts), 'line')}, and the input has more; give a "
            "line for each, an empty one where nothing is forced"
        )
    lowercase = run.config.data.lowercase
    return [run.vocabularies.target.encode(normalize(text, lowercase)) for text in texts]
