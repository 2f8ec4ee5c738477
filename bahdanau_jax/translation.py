"""Lines in, lines out: decoding text that comes from a stream."""

import itertools
from collections.abc import Iterator
from typing import BinaryIO, TextIO

from bahdanau_jax.corpus import normalize
from bahdanau_jax.errors import InputError
from bahdanau_jax.progress import say
from bahdanau_jax.run import TrainedRun
from bahdanau_jax.token_store import TokenStore

CHUNK = 4096  # lines read before they are sorted by length and decoded


def translate(run: TrainedRun, lines: BinaryIO, out: TextIO) -> None:
    """Writes one output for every line, in the order of the lines.

    Args:
      run: the trained model.
      lines: UTF-8 text; a line that is empty or blank gives an empty line.
      out: where outputs go.

    Raises:
      InputError: a line is not valid UTF-8; what came before it has been written.
    """
    texts = read_lines(lines)
    limit, longer = run.config.data.max_length, 0
    while chunk := list(itertools.islice(texts, CHUNK)):
        prepared = [normalize(text, run.config.data.lowercase) for text in chunk]
        wanted = [number for number, text in enumerate(prepared) if text.strip()]
        ids = [run.vocabularies.source.encode(prepared[number]) for number in wanted]
        longer += sum(len(sentence) > limit for sentence in ids)
        store = TokenStore.from_pairs([(sentence, []) for sentence in ids])
        outputs = [""] * len(chunk)
        for place, output in run.evaluator.decode_stream(run.params, store):
            outputs[wanted[place]] = run.evaluator.text(output)
        out.writelines(text + "\n" for text in outputs)
        out.flush()
    if longer:
        say(f"{longer:,} lines are longer than the {limit} tokens that training saw at most")


def read_lines(lines: BinaryIO) -> Iterator[str]:
    """Yields lines without their ends; a byte-order mark and carriage returns are stripped.

    Raises:
      InputError: a line is not valid UTF-8; names its number.
    """
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"input line {number} is not valid UTF-8 (byte {error.start + 1}); convert the "
                "text to UTF-8"
            ) from error
        yield text.rstrip("\r\n")
