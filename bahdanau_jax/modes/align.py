"""The mode `align`: links of given pairs by forced decoding, heat maps, and a page to point at."""

import dataclasses
from pathlib import Path
from typing import TextIO

from bahdanau_jax.data.gold_links import GoldLinks, format_line
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.evaluation import alignment_measures
from bahdanau_jax.evaluation.given_pairs import GivenTexts, chunks
from bahdanau_jax.evaluation.gold_comparison import align_pairs
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.reports.alignment_page import END, alignment_page
from bahdanau_jax.terminal import counted, say
from bahdanau_jax.workdir.directory import make

PAGE = "alignments.html"
LONGEST_DRAWN = 100  # words a side; longer pairs make unreadable pictures


@dataclasses.dataclass(frozen=True)
class Drawing:
    """What is drawn, and where."""

    directory: Path  # made if absent
    count: int  # so many pairs, the first that are short enough; 0: nothing is drawn


def align(
    run: TrainedRun,
    texts: GivenTexts,
    out: TextIO,
    drawing: Drawing,
    *,
    threshold: float | None = None,
) -> None:
    """Writes a Pharaoh line for each pair, in their order, and draws the first of them.

    Where there are gold links, precision, recall and AER go to standard error, the AER also at the
    offset at which the links agree best.

    Args:
      run: the trained model.
      texts: the pairs, perhaps with gold links.
      out: where the lines go; an empty line for a pair without links.
      drawing: heat maps as PNG, one a pair, and one HTML page of all.
      threshold: links join words of at least this weight; None: each target word to its heaviest.

    Raises:
      InputError: what gives the pairs finds a fault in them, or the directory can't be made.
    """
    drawn: dict[int, WordAlignment] = {}
    counts = dict.fromkeys(alignment_measures.OFFSETS, alignment_measures.LinkCounts())
    number = 0
    for given in chunks(run, texts.pairs):
        for alignment in align_pairs(run, given):
            found = alignment_measures.links(alignment.weights, threshold)
            out.write(format_line(found) + "\n")
            if texts.gold is not None:
                for offset in counts:
                    moved = alignment_measures.moved_links(alignment.weights, threshold, offset)
                    counts[offset] += alignment_measures.count_links(moved, texts.gold[number])
            sizes = len(alignment.source), len(alignment.target)
            if len(drawn) < drawing.count and min(sizes) and max(sizes) <= LONGEST_DRAWN:
                drawn[number] = alignment
            number += 1
        out.flush()
    if drawn:
        _draw(drawn, drawing, texts.gold)
    if texts.gold is not None:
        for line in gold_lines(counts, texts.origin):
            say(line)


def gold_lines(counts: dict[int, alignment_measures.LinkCounts], origin: str) -> list[str]:
    """Returns what people are told of links that were compared with gold ones.

    Args:
      counts: by offset; see `best_offset`.
      origin: of the gold links.
    """
    whole, offset = counts[0], alignment_measures.best_offset(counts)
    lines = [
        f"AER {whole.aer:.2f} %, precision {whole.precision:.2f} %, recall {whole.recall:.2f} % "
        f"against {origin}"
    ]
    if offset:
        beside = f"{counted(abs(offset), 'word')} to the {'right' if offset > 0 else 'left'}"
        lines.append(
            f"offset {offset:+d}: the weights lie {beside} of the gold links; moved back, AER is "
            f"{counts[offset].aer:.2f} %"
        )
    elif offset == 0:
        lines.append("offset 0: moving the links lowers the AER nowhere")
    return lines


def _draw(drawn: dict[int, WordAlignment], drawing: Drawing, gold: list[GoldLinks] | None) -> None:
    # Imported here: Matplotlib would make every start longer.
    from bahdanau_jax.reports import heat_maps

    directory = make(drawing.directory)
    for number, alignment in drawn.items():
        source = [*alignment.source, END]
        picture = heat_maps.Alignment(alignment.weights, source, alignment.target)
        heat_maps.heat_map(directory / f"{number + 1:04d}.png", picture)
    page = alignment_page(
        ((f"pair {number + 1}", alignment) for number, alignment in drawn.items()),
        title="Alignments",
        gold=None if gold is None else [gold[number] for number in drawn],
    )
    write_atomically(directory / PAGE, page)
    pairs = counted(len(drawn), "pair")
    say(f"{pairs} drawn: {directory / PAGE}, and a heat map of each beside it")
