"""Alignments as heat maps, in files, with fonts for whatever script their tokens are in.

The file's suffix says the format (`.png`, `.svg`, `.pdf`). Figures are drawn without pyplot, so
nothing here depends on a display or on what another part of the program has drawn.
"""

import functools
import logging
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from bahdanau_jax.reports.plots import write_png

CELL = 0.24  # inches for one token of a heat map
GAP = 0.15  # inches between labels and what is beside them
LABEL = 9.0  # points, size of a heat map's labels
LARGEST = 40.0  # inches of a page of heat maps; a larger one is scaled down
FIRST_FONT = "DejaVu Sans"  # comes with matplotlib
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_reported: set[str] = set()


class Alignment(NamedTuple):
    """One sentence pair and how it was attended to."""

    weights: np.ndarray  # float[T, S], from 0 to 1; row i: where target token i looked
    source: Sequence[str]  # S tokens
    target: Sequence[str]  # T tokens
    title: str = ""


def heat_map(path: str | os.PathLike[str], alignment: Alignment) -> None:
    """Draws one alignment as Figure 3 of Bahdanau et al. 2014 does.

    Source tokens run across the top, target tokens down; black is 0, white is 1.

    Args:
      path: file to write.
      alignment: the pair; its weights must be float[T, S].

    Raises:
      ValueError: the weights' shape isn't that of the tokens.
    """
    heat_maps(path, [alignment], columns=1)


def heat_maps(
    path: str | os.PathLike[str], alignments: Sequence[Alignment], columns: int = 2
) -> None:
    """Draws several alignments on one page; see `heat_map`.

    Args:
      path: file to write.
      alignments: at least one.
      columns: heat maps side by side.

    Raises:
      ValueError: there is none, or the weights' shape isn't that of the tokens.
    """
    if not alignments:
        raise ValueError("needs at least one alignment")
    for weights, source, target, _ in alignments:
        if np.shape(weights) != (len(target), len(source)):
            raise ValueError(
                f"weights of shape {np.shape(weights)} for {len(target)} target "
                f"and {len(source)} source tokens"
            )
    font = _font("".join("".join([*a.source, *a.target, a.title]) for a in alignments))
    panels = [_Panel(alignment, font) for alignment in alignments]
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    widths = [max(panel.width for panel in panels[c::columns]) for c in range(len(rows[0]))]
    heights = [max(panel.height for panel in row) for row in rows]
    width, height = sum(widths), sum(heights)
    scale = min(1.0, LARGEST / width, LARGEST / height)
    figure = Figure(figsize=(width * scale, height * scale), dpi=150)
    FigureCanvasAgg(figure)
    for row, panel_row in enumerate(rows):
        for column, panel in enumerate(panel_row):
            left = sum(widths[:column]) + panel.left
            bottom = height - sum(heights[:row]) - panel.height + GAP
            across, down = len(panel.source) * CELL, len(panel.target) * CELL
            box = (left / width, bottom / height, across / width, down / height)
            panel.draw(figure.add_axes(box), scale)
    write_png(figure, path)


class _Panel:
    """One heat map of a page and the room that it needs, in inches.

    Places are computed from the labels' lengths: matplotlib's own layouts draw every label several
    times, which takes seconds on a page of many.
    """

    def __init__(self, alignment: Alignment, font: FontProperties):
        self.weights, self.font = np.asarray(alignment.weights), font
        self.source, self.target = _shown(alignment.source, font), _shown(alignment.target, font)
        (self.title,) = _shown([alignment.title], font)
        widest = [
            max((_inches(text, font) for text in texts), default=0.0)
            for texts in (self.target, self.source, [self.title])
        ]
        self.left, self.top = widest[0] + 2 * GAP, widest[1] + 2 * GAP
        self.width = max(self.left + len(self.source) * CELL, widest[2] + GAP) + GAP
        self.height = self.top + (CELL if self.title else 0) + len(self.target) * CELL + GAP

    def draw(self, axes: Axes, scale: float) -> None:
        axes.imshow(
            self.weights, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="auto"
        )
        axes.xaxis.tick_top()
        axes.tick_params(length=0)
        style = {"font": self.font, "fontsize": LABEL * scale, "parse_math": False}
        axes.set_xticks(range(len(self.source)), self.source, rotation=90, **style)
        axes.set_yticks(range(len(self.target)), self.target, **style)
        if self.title:
            offset = (-(self.left - GAP) * 72 * scale, self.top * 72 * scale)
            axes.annotate(self.title, (0, 1), offset, "axes fraction", "offset points", **style)


def _inches(text: str, font: FontProperties) -> float:
    """Returns how wide a label is, margins not counted."""
    files = [font_manager.findfont(FontProperties(family=name)) for name in font.get_family()]
    face = font_manager.get_font(files)
    face.set_size(LABEL, 72)
    face.set_text(text)
    return face.get_width_height()[0] / 64 / 72


def _font(text: str) -> FontProperties:
    """Returns a font, with further ones behind it for the characters that it lacks.

    The fonts on the system are opened only if matplotlib's own doesn't have every character.
    """
    families = [FIRST_FONT]
    missing = {c for c in text if not c.isspace()} - _characters(FIRST_FONT)
    others = {family: _characters(family) & missing for family in _upright()} if missing else {}
    while others and others[best := max(others, key=lambda family: len(others[family]))]:
        families.append(best)
        missing -= others[best]
        others = {family: characters & missing for family, characters in others.items()}
    new = missing - _reported
    if new:
        _reported.update(new)
        logging.warning(
            "no font on this system has %s; %s is drawn instead",
            " ".join(sorted(new)[:20]) + (" and more" if len(new) > 20 else ""),
            REPLACEMENT,
        )
    return FontProperties(family=families)


def _upright() -> list[str]:
    """Returns the system's families that have the plain face that labels ask for, by name."""
    faces = font_manager.fontManager.ttflist
    plain = {
        face.name for face in faces if face.style == "normal" and face.weight in (400, "normal")
    }
    # The font of last resort has a box for every character, which says nothing to a reader.
    return sorted(
        family for family in plain if not family.startswith(("Last Resort", "LastResort"))
    )


@functools.cache
def _characters(family: str) -> frozenset[str]:
    try:
        path = font_manager.findfont(FontProperties(family=family), fallback_to_default=False)
        return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
    except (ValueError, RuntimeError, OSError):
        return frozenset()


def _shown(tokens: Sequence[str], font: FontProperties) -> list[str]:
    """Returns tokens as they're drawn: no line breaks, a replacement for what no font has."""
    known = frozenset(" ").union(*(_characters(family) for family in font.get_family()))
    return [
        "".join(c if c in known else " " if c.isspace() else REPLACEMENT for c in token)
        for token in tokens
    ]
