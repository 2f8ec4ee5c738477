"""One self-contained HTML page of alignments: pointing at a word lights its row.

The page loads nothing, says so in its policy, and follows the reader's light or dark setting.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.reports.pages import render

END = "∎"  # stands for the end of the source sentence


class Cell(NamedTuple):
    """How a target word attends to a source word."""

    weight: str  # from 0 to 1, as CSS reads it
    gold: str  # sure | possible; empty: no gold link


def alignment_page(
    alignments: Iterable[tuple[str, WordAlignment]],
    *,
    title: str,
    gold: Sequence[GoldLinks] | None = None,
) -> str:
    """Returns the page.

    Args:
      alignments: each with a heading, as `test 17`.
      title: of the page.
      gold: links of each pair, drawn as frames; None: there are none.

    Returns:
      The HTML text; every word in it is escaped.
    """
    sections = [
        (heading, alignment.source, _rows(alignment, gold[number] if gold else None))
        for number, (heading, alignment) in enumerate(alignments)
    ]
    legend = "Thick frames are sure gold links, thin ones possible ones." if gold else ""
    return render("alignments", title=title, legend=legend, sections=sections, end=END)


def _rows(alignment: WordAlignment, gold: GoldLinks | None) -> list[tuple[str, list[Cell]]]:
    """Returns each target word and its cells, the last of them for the sentence's end."""
    return [
        (word, [_cell(weight, (i, j), gold) for i, weight in enumerate(row)])
        for j, (word, row) in enumerate(
            zip(alignment.target, alignment.weights.tolist(), strict=True)
        )
    ]


def _cell(weight: float, link: tuple[int, int], gold: GoldLinks | None) -> Cell:
    kind = ""
    if gold and link in gold.possible:
        kind = "sure" if link in gold.sure else "possible"
    return Cell(f"{weight:.3f}".rstrip("0").rstrip("."), kind)
