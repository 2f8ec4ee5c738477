"""Charts: curves, scores by source length, a Pareto front, differences with their intervals.

Most are SVG elements for a page: text stays text, colours are the page's variables (`--ink`, `--c0`
to `--c7`), so that one drawing serves light and dark, and every mark carries its figures as a
title, which a browser shows to who points at it. The same figures give the same bytes. Charts are
drawn without pyplot, so nothing depends on a display or on what else the program has drawn.
"""

import io
import math
import os
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bahdanau_jax.durable import write_atomically

WIDTH, HEIGHT = 640, 300  # pixels of a chart, before the page scales it
COLOURS = 8
LENGTH = "source length in words"
ROW = 24  # pixels of a row of `intervals`

# Stand in the drawing for the page's variables.
_CURVES = [f"#c0c0{number:02x}" for number in range(COLOURS)]
_LINE, _MUTED, _INK = "#c0c0f0", "#c0c0f1", "#c0c0f2"
_VARIABLES = {colour: f"var(--c{number})" for number, colour in enumerate(_CURVES)}
_VARIABLES |= {_LINE: "var(--line)", _MUTED: "var(--muted)", _INK: "var(--ink)"}
_SVG = "{http://www.w3.org/2000/svg}"


class Curve(NamedTuple):
    """A curve with a band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]  # a band of NaN isn't drawn
    high: Sequence[float]


class Mark(NamedTuple):
    """A point with a name."""

    label: str
    x: float
    y: float
    best: bool  # on the front


class Interval(NamedTuple):
    """A difference and the interval in which it lies; NaN where that isn't known."""

    label: str
    value: float
    low: float
    high: float


def training_curves(curves: Sequence[Curve], quantity: str) -> str:
    """Draws a figure against the step, each curve with its band.

    Args:
      curves: at least one, of at least one point each.
      quantity: what the figure is, as `dev/wer`.

    Returns:
      An `<svg>` element.
    """
    figure, axes = _chart("step", quantity)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    return _element(figure, _draw(axes, curves, "step"), f"{quantity} by step")


def length_curves(curves: Sequence[Curve], lengths: Sequence[str], quantity: str) -> str:
    """Draws a score against the source's length, each curve with its band.

    Args:
      curves: as of `training_curves`; x counts the lengths from 0.
      lengths: names of the buckets, two lines at most.
      quantity: what the score is, as `BLEU`.

    Returns:
      An `<svg>` element.
    """
    across = f"{LENGTH}, n sentences"
    figure, axes = _chart(across, quantity)
    axes.set_xticks(range(len(lengths)), lengths, parse_math=False)
    return _element(figure, _draw(axes, curves, across, lengths), f"{quantity} by {across}")


def front(marks: Sequence[Mark], cost: str, quality: str) -> str:
    """Draws a quality against a cost, with names; those on the front are joined and bold.

    Args:
      marks: at least one.
      cost: what is across.
      quality: what is up.

    Returns:
      An `<svg>` element.
    """
    figure, axes = _chart(cost, quality)
    axes.margins(x=0.12)
    best = sorted((mark.x, mark.y) for mark in marks if mark.best)
    axes.plot(*zip(*best, strict=True), color=_MUTED, linestyle="--", gid="front")
    middle = (min(mark.x for mark in marks) + max(mark.x for mark in marks)) / 2
    titles = {}
    for number, mark in enumerate(marks):
        gid, colour = f"mark{number}", _CURVES[number % COLOURS]
        axes.plot(mark.x, mark.y, "o", color=colour, markersize=10, gid=gid)
        titles[gid] = [f"{mark.label}: {cost} {_number(mark.x)}, {quality} {_number(mark.y)}"]
        right = mark.x <= middle
        axes.annotate(
            mark.label,
            (mark.x, mark.y),
            (9 if right else -9, 6),
            textcoords="offset points",
            horizontalalignment="left" if right else "right",
            fontsize=12,
            fontweight="bold" if mark.best else "normal",
            parse_math=False,
        )
    return _element(figure, titles, f"{quality} against {cost}")


def intervals(rows: Sequence[Interval], across: str) -> str:
    """Draws differences with their intervals, a row each, and the line of no difference.

    Args:
      rows: at least one, from top to bottom.
      across: what the differences are, and which direction is better.

    Returns:
      An `<svg>` element; an interval without zero has the colour of the first curve.
    """
    figure, axes = _chart(across, "", height=60 + ROW * len(rows))
    axes.grid(False, axis="y")
    axes.axvline(0, color=_INK, linestyle="--", linewidth=1, gid="zero")
    axes.set_yticks(range(len(rows)), [row.label for row in rows], parse_math=False)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    titles = {}
    for number, row in enumerate(rows):
        gid = f"row{number}"
        clear = math.isfinite(row.low) and not row.low <= 0 <= row.high
        colour = _CURVES[0] if clear else _MUTED
        if math.isfinite(row.low):
            axes.plot([row.low, row.high], [number] * 2, color=colour, linewidth=3, gid="bar")
        axes.plot(row.value, number, "o", color=colour, markersize=10, gid=gid)
        span = f"{_number(row.low)} to {_number(row.high)}"
        titles[gid] = [f"{row.label}: {_number(row.value)} ({span})"]
    return _element(figure, titles, across)


def by_length(
    path: str | os.PathLike[str],
    lengths: Sequence[str],
    scores: Mapping[str, Sequence[float]],
    quantity: str,
    limits: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> None:
    """Draws a score against the source's length (Bahdanau et al. 2014, Figure 2), into a file.

    One system is drawn as bars, several as lines.

    Args:
      path: file to write; its suffix says the format.
      lengths: names of the buckets, at least one, perhaps with the number of their sentences.
      scores: of each system, one a bucket.
      quantity: what the score is, as `BLEU`.
      limits: of each system's 95 % intervals, one a bucket; None: none are drawn.

    Raises:
      ValueError: there is no bucket, or a system has more or fewer scores.
    """
    if not lengths or any(len(system) != len(lengths) for system in scores.values()):
        raise ValueError("needs at least one bucket, and a score of every system for each")
    places = range(len(lengths))
    size = (max(4.0, 1 + 0.9 * len(places)), 3.5)
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, system in scores.items():
        if len(scores) == 1:
            axes.bar(places, system, label=name)
        else:
            axes.plot(places, system, label=name, marker="o")
        if limits:
            low, high = zip(*limits[name], strict=True)
            axes.vlines(places, low, high, color="black", linewidth=1, label="95 % interval")
    axes.set_xticks(places, lengths)
    axes.set_xlabel(f"{LENGTH}, n sentences")
    axes.set_ylabel(quantity, parse_math=False)
    for text in axes.legend(frameon=False).get_texts():
        text.set_parse_math(False)
    write_png(figure, path)


def write_png(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Writes a picture as a whole or not at all."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def _chart(across: str, up: str, height: int = HEIGHT) -> tuple[Figure, Axes]:
    """Returns an empty chart: a grid, and no frame."""
    figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")  # a point is a pixel
    FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(color=_LINE, linewidth=1)
    axes.tick_params(length=0, labelsize=12)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    axes.set_xlabel(across, color=_MUTED, fontsize=12, parse_math=False)
    axes.set_ylabel(up, color=_MUTED, fontsize=12, parse_math=False)
    return figure, axes


def _draw(
    axes: Axes, curves: Sequence[Curve], across: str, names: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Draws curves; returns the titles of their points by the curves' ids."""
    titles = {}
    for number, curve in enumerate(curves):
        gid, colour = f"curve{number}", _CURVES[number % COLOURS]
        if all(map(math.isfinite, [*curve.low, *curve.high])):
            edge = [*curve.x, *reversed(curve.x)], [*curve.low, *reversed(curve.high)]
            axes.fill(*edge, color=colour, alpha=0.16, linewidth=0, gid="band")
        axes.plot(curve.x, curve.y, color=colour, linewidth=2, marker="o", markersize=6, gid=gid)
        titles[gid] = []
        for x, y, low, high in zip(curve.x, curve.y, curve.low, curve.high, strict=True):
            place = _number(x) if names is None else names[round(x)].replace("\n", " ")
            band = f" ({_number(low)} to {_number(high)})" if math.isfinite(low) else ""
            titles[gid].append(f"{curve.label}, {across} {place}: {_number(y)}{band}")
    return titles


def _element(figure: Figure, titles: Mapping[str, Sequence[str]], label: str) -> str:
    """Returns a chart as an `<svg>` element for a page.

    Args:
      figure: the chart.
      titles: of each line's marks, by the line's id.
      label: what the chart shows, for those who can't see it.
    """
    stream = io.StringIO()
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "bahdanau_jax", "path.simplify": False}
    style["font.sans-serif"] = ["DejaVu Sans"]  # to measure by; the page has a font of its own
    metadata: Any = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context(style), warnings.catch_warnings():
        # The browser draws the text, with fonts of its own; here it is only measured.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(stream, format="svg", metadata=metadata)
    root = ElementTree.fromstring(stream.getvalue())
    for group in list(root.iter(f"{_SVG}g")):
        gid = group.attrib.pop("id", "")
        if gid in ("front", "band", "zero", "bar"):
            group.set("class", gid)
        for mark, title in zip(group.iter(f"{_SVG}use"), titles.get(gid, ()), strict=False):
            _make_circle(mark, title)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}defs" or (child.tag == f"{_SVG}g" and not len(child)):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib.pop("clip-path", None)
        if "d" in element.attrib:
            element.set("d", " ".join(element.attrib["d"].split()))
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib |= {"viewBox": box, "width": str(WIDTH), "role": "img", "aria-label": label}
    text = ElementTree.tostring(root, encoding="unicode")
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    return text


def _make_circle(mark: ElementTree.Element, title: str) -> None:
    """Makes a circle of a mark, which Matplotlib draws by a link to a shape, and names it."""
    place = {"cx": mark.attrib["x"], "cy": mark.attrib["y"]}
    style = mark.attrib["style"]
    mark.tag = f"{_SVG}circle"
    mark.attrib.clear()
    mark.attrib |= {**place, "r": "4", "style": style}
    ElementTree.SubElement(mark, f"{_SVG}title").text = title


def _number(value: float) -> str:
    """Returns a number with four digits, thousands apart."""
    if not math.isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
