"""The mode `align`: links of given pairs by forced decoding, heat maps, and a page to point at."""

import dataclasses
from pathlib import Path
from typing import NamedTuple, TextIO

from bahdanau_jax.data.corpus import normalize
from bahdanau_jax.data.gold_links import GoldLinks, Link, format_line, parse_line
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import alignment_measures, symmetrization
from bahdanau_jax.evaluation.given_pairs import GivenTexts, chunks
from bahdanau_jax.evaluation.gold_comparison import align_pairs
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.lines import read_lines
from bahdanau_jax.reports.alignment_page import END, alignment_page
from bahdanau_jax.terminal import counted, say
from bahdanau_jax.workdir.directory import make
from bahdanau_jax.workdir.selection import Selection

PAGE = "alignments.html"
LONGEST_DRAWN = 100  # words a side; longer pairs make unreadable pictures


@dataclasses.dataclass(frozen=True)
class Drawing:
    """What is drawn, and where."""

    directory: Path  # made if absent
    count: int  # so many pairs, the first that are short enough; 0: nothing is drawn


class OtherDirection(NamedTuple):
    """A model's links from target to source, which are combined with the run's own."""

    method: str  # of `symmetrization.METHODS`
    path: Path  # the model's workdir, or a file of the Pharaoh lines that it wrote
    checkpoint: Selection = "best"


def align(
    run: TrainedRun,
    texts: GivenTexts,
    out: TextIO,
    drawing: Drawing,
    *,
    threshold: float | None = None,
    other: OtherDirection | None = None,
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
      other: what the links are combined with; None: nothing.

    Raises:
      InputError: what gives the pairs finds a fault in them, the directory can't be made, or the
        links of the other direction aren't those of the pairs.
    """
    backward = None
    if other is not None:
        texts = texts._replace(pairs=list(texts.pairs))
        backward = _backward_links(run, texts, other, threshold)
    combined = alignment_measures.LinkCounts()
    drawn: dict[int, WordAlignment] = {}
    counts = dict.fromkeys(alignment_measures.OFFSETS, alignment_measures.LinkCounts())
    number = 0
    for given in chunks(run, texts.pairs):
        for alignment in align_pairs(run, given):
            found = alignment_measures.links(alignment.weights, threshold)
            if other is not None and backward is not None:
                found = symmetrization.combine(found, backward[number], other.method)
            out.write(format_line(found) + "\n")
            if texts.gold is not None:
                combined += alignment_measures.count_links(found, texts.gold[number])
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
        if other is not None:
            say(f"both directions, {other.method}: {_rates(combined)}")


def gold_lines(counts: dict[int, alignment_measures.LinkCounts], origin: str) -> list[str]:
    """Returns what people are told of links that were compared with gold ones.

    Args:
      counts: by offset; see `best_offset`.
      origin: of the gold links.
    """
    whole, offset = counts[0], alignment_measures.best_offset(counts)
    lines = [f"{_rates(whole)} against {origin}"]
    if offset:
        beside = f"{counted(abs(offset), 'word')} to the {'right' if offset > 0 else 'left'}"
        lines.append(
            f"offset {offset:+d}: the weights lie {beside} of the gold links; moved back, AER is "
            f"{counts[offset].aer:.2f} %"
        )
    elif offset == 0:
        lines.append("offset 0: moving the links lowers the AER nowhere")
    return lines


def _rates(counts: alignment_measures.LinkCounts) -> str:
    return (
        f"AER {counts.aer:.2f} %, precision {counts.precision:.2f} %, recall {counts.recall:.2f} %"
    )


def _backward_links(
    run: TrainedRun, texts: GivenTexts, other: OtherDirection, threshold: float | None
) -> list[set[Link]]:
    """Returns the other direction's links of every pair, as source, target.

    Raises:
      InputError: they can't be read, or are about other words than those of the pairs.
    """
    turned = [(target, source) for source, target in texts.pairs]
    if other.path.is_dir():
        model = open_run(other.path, other.checkpoint)
        alignments = [x for given in chunks(model, turned) for x in align_pairs(model, given)]
        found = [alignment_measures.links(x.weights, threshold) for x in alignments]
    else:
        found = []
        for number, line in enumerate(read_lines(other.path), 1):
            try:
                found.append(set(parse_line(line).sure))
            except ValueError as error:
                raise InputError(f"{other.path}, line {number}: {error}") from error
    if len(found) != len(turned):
        raise InputError(
            f"{other.path} has {counted(len(found), 'line')} of links, but there are "
            f"{counted(len(turned), 'pair')}; give those that align wrote of the same pairs"
        )
    source, target = run.vocabularies.source, run.vocabularies.target
    lowercase = run.config.data.lowercase
    for number, (links, pair) in enumerate(zip(found, texts.pairs, strict=True), 1):
        of_source, of_target = (normalize(text, lowercase) for text in pair)
        lengths = len(target.words(of_target)), len(source.words(of_source))
        for link in links:
            if link[0] >= lengths[0] or link[1] >= lengths[1]:
                raise InputError(
                    f"{other.path}, pair {number}: a link {link[0]}-{link[1]} from target to "
                    f"source, but only {lengths[0]} target and {lengths[1]} source words"
                )
    return [{(source, target) for target, source in links} for links in found]


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
