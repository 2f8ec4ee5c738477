"""How the outputs of one line are written: text, n-best table, alignments."""

import dataclasses

import numpy as np

from bahdanau_jax.data.gold_links import format_line
from bahdanau_jax.evaluation.alignment_measures import argmax_links
from bahdanau_jax.evaluation.decoding import Output
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.evaluation.word_alignment import (
    WordAlignment,
    alignment_json,
    word_alignment,
    word_rows,
)
from bahdanau_jax.modes.unknown_words import Lexicon, replace_unknown

# What some program takes for the end of a line or of a column becomes a space in an output.
_ONE_COLUMN = str.maketrans(dict.fromkeys("\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What is to be written for each line."""

    nbest: int = 0  # 0: the best output's text; else so many lines of rank, score and text
    lexicon: Lexicon | None = None  # None: unknown words stay; else they are looked up or copied
    alignments: str = ""  # json | pharaoh, one line an output; empty: none

    @property
    def needs_alignments(self) -> bool:
        """Whether the search has to return them."""
        return bool(self.alignments) or self.lexicon is not None


EMPTY = {"json": '{"source": [], "target": [], "alignment": []}', "pharaoh": "", "": ""}


def output_lines(
    run: TrainedRun, wanted: Wanted, text: str, ids: list[int], outputs: list[Output]
) -> tuple[str, str]:
    """Returns what is written for one line: its outputs, and their alignments, with line ends.

    Args:
      run: the trained model.
      wanted: what is to be written.
      text: the line as the model saw it.
      ids: its tokens.
      outputs: the best first.
    """
    texts, alignments = [], []
    for rank, output in enumerate(outputs, 1):
        made, alignment = run.evaluator.text(output), ""
        # Of a very long line there are none.
        if wanted.needs_alignments and output.alignment.shape[1]:
            words = _word_alignment(run, text, ids, output, made)
            if wanted.lexicon is not None:
                made = replace_unknown(
                    run.vocabularies.target, output.tokens, words, wanted.lexicon
                )
            if wanted.alignments == "pharaoh":
                alignment = format_line(argmax_links(words.weights))
            elif wanted.alignments:
                alignment = alignment_json(run.vocabularies, ids, output)
        made = made.translate(_ONE_COLUMN)
        texts.append(f"{rank}\t{output.score:.4f}\t{made}\n" if wanted.nbest else f"{made}\n")
        alignments.append(f"{alignment or EMPTY[wanted.alignments]}\n")
    return "".join(texts), "".join(alignments) if wanted.alignments else ""


def _word_alignment(
    run: TrainedRun, text: str, ids: list[int], output: Output, made: str
) -> WordAlignment:
    rows, count = output.alignment, len(output.tokens)
    if not output.ended:  # no step came after the last word
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
    rows = word_rows(rows, run.config.model.attention.query)[:count]
    return word_alignment(run.vocabularies, (text, made), (ids, output.tokens), rows)
