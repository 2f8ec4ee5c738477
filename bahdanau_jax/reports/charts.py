"""Charts as inline SVG for the report of a comparison: no script, no file beside the page.

Colours are the page's variables (`--ink`, `--c0` to `--c7`), so that one drawing serves light and
dark. Every mark carries its figures as a title, which a browser shows to who points at it.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WIDTH, HEIGHT = 640, 300  # pixels of a chart, before the page scales it
LEFT, RIGHT, TOP, BOTTOM = 64, 40, 12, 58  # margins
COLOURS = 8
CELL = 17  # pixels of a position of a heat map
CHARACTER = 6.6  # pixels of a character of its labels, about


class Series(NamedTuple):
    """A curve with a band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Mark(NamedTuple):
    """A point of a scatter plot."""

    label: str
    x: float
    y: float
    best: bool  # on the front


class Interval(NamedTuple):
    """A row of a chart of differences."""

    label: str
    value: float
    low: float
    high: float


def lines(
    series: Sequence[Series], x_label: str, y_label: str, ticks: Sequence[str] | None = None
) -> str:
    """Draws curves, each with its band.

    Args:
      series: at least one, of at least one point each; NaN bands aren't drawn.
      x_label: what is across.
      y_label: what is up.
      ticks: names of the places 0, 1, … of the x axis, where it has no scale; two lines at most.

    Returns:
      An `<svg>` element.
    """
    xs = [x for s in series for x in s.x]
    ys = [v for s in series for values in (s.y, s.low, s.high) for v in values if math.isfinite(v)]
    frame = _Frame(xs, ys)
    parts = [frame.axes(x_label, y_label, ticks)]
    for number, s in enumerate(series):
        colour = f"var(--c{number % COLOURS})"
        if all(map(math.isfinite, [*s.low, *s.high])):
            edge = [*zip(s.x, s.low, strict=True), *reversed(list(zip(s.x, s.high, strict=True)))]
            points = " ".join(frame.point(x, y) for x, y in edge)
            parts.append(f'<polygon points="{points}" fill="{colour}" opacity="0.16"/>')
        points = " ".join(frame.point(x, y) for x, y in zip(s.x, s.y, strict=True))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        for x, y, low, high in zip(s.x, s.y, s.low, s.high, strict=True):
            place = ticks[round(x)].replace("\n", " ") if ticks else _number(x)
            band = f" ({_number(low)} to {_number(high)})" if math.isfinite(low) else ""
            said = f"{s.label}, {x_label} {place}: {_number(y)}{band}"
            parts.append(frame.dot(x, y, colour, said))
    return _svg(WIDTH, HEIGHT, parts, f"{y_label} by {x_label}")


def scatter(marks: Sequence[Mark], x_label: str, y_label: str) -> str:
    """Draws points with their names; those on the front are joined.

    Args:
      marks: at least one.
      x_label: what is across.
      y_label: what is up.

    Returns:
      An `<svg>` element.
    """
    frame = _Frame([m.x for m in marks], [m.y for m in marks], room=0.12)
    parts = [frame.axes(x_label, y_label, None)]
    front = sorted((m.x, m.y) for m in marks if m.best)
    points = " ".join(frame.point(x, y) for x, y in front)
    parts.append(f'<polyline points="{points}" fill="none" class="front"/>')
    for number, mark in enumerate(marks):
        said = f"{mark.label}: {x_label} {_number(mark.x)}, {y_label} {_number(mark.y)}"
        parts.append(frame.dot(mark.x, mark.y, f"var(--c{number % COLOURS})", said, radius=5))
        x, y = frame.across(mark.x), frame.up(mark.y)
        right = x < WIDTH - 150
        anchor, shift = ("start", 9) if right else ("end", -9)
        weight = ' font-weight="600"' if mark.best else ""
        parts.append(
            f'<text x="{x + shift:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}"{weight}>'
            f"{html.escape(mark.label)}</text>"
        )
    return _svg(WIDTH, HEIGHT, parts, f"{y_label} against {x_label}")


def intervals(rows: Sequence[Interval], x_label: str) -> str:
    """Draws differences with their intervals, a row each, and the line of no difference.

    Args:
      rows: at least one; an interval of NaN isn't drawn.
      x_label: what is across, with the direction that is better.

    Returns:
      An `<svg>` element.
    """
    left = 24 + max(len(row.label) for row in rows) * CHARACTER
    height = TOP + BOTTOM + 24 * len(rows)
    values = [v for r in rows for v in (r.value, r.low, r.high) if math.isfinite(v)]
    width = left + WIDTH - LEFT
    frame = _Frame([0.0, *values], [0, len(rows)], left, width, height, room=0.05)
    parts = [frame.grid(x_label)]
    zero = frame.across(0.0)
    parts.append(
        f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{TOP}" y2="{height - BOTTOM}" class="zero"/>'
    )
    for number, row in enumerate(rows):
        y = TOP + 24 * number + 12
        clear = math.isfinite(row.low) and not row.low <= 0 <= row.high
        colour = "var(--c0)" if clear else "var(--muted)"
        if math.isfinite(row.low):
            parts.append(
                f'<line x1="{frame.across(row.low):.1f}" x2="{frame.across(row.high):.1f}" '
                f'y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
            )
        said = f"{row.label}: {_number(row.value)} ({_number(row.low)} to {_number(row.high)})"
        parts.append(
            f'<circle cx="{frame.across(row.value):.1f}" cy="{y}" r="5" fill="{colour}">'
            f"<title>{html.escape(said)}</title></circle>"
            f'<text x="{left - 10:.0f}" y="{y + 4}" text-anchor="end">'
            f"{html.escape(row.label)}</text>"
        )
    return _svg(width, height, parts, x_label)


def heat_map(weights: np.ndarray, source: Sequence[str], target: Sequence[str]) -> str:
    """Draws an alignment: source tokens across the top, target tokens down.

    Args:
      weights: float[T, S], from 0 to 1.
      source: S tokens.
      target: T tokens.

    Returns:
      An `<svg>` element.
    """
    left = 12 + max(map(len, target), default=0) * CHARACTER
    top = 12 + max(map(len, source), default=0) * CHARACTER
    width, height = left + len(source) * CELL + 4, top + len(target) * CELL + 4
    parts = []
    for j, token in enumerate(source):
        x = left + j * CELL + CELL / 2 + 4
        parts.append(
            f'<text transform="translate({x:.1f} {top - 5:.1f}) rotate(-90)">'
            f"{html.escape(token)}</text>"
        )
    for i, token in enumerate(target):
        y = top + i * CELL
        parts.append(
            f'<text x="{left - 5:.1f}" y="{y + CELL - 5:.1f}" text-anchor="end">'
            f"{html.escape(token)}</text>"
        )
        for j, weight in enumerate(weights[i]):
            said = f"{token} ← {source[j]}: {weight:.2f}"
            parts.append(
                f'<rect x="{left + j * CELL:.1f}" y="{y:.1f}" width="{CELL - 1}" '
                f'height="{CELL - 1}" class="cell" fill-opacity="{max(float(weight), 0):.3f}">'
                f"<title>{html.escape(said)}</title></rect>"
            )
    return _svg(width, height, parts, "alignment")


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Returns round numbers that cover a range: multiples of 1, 2 or 5 times a power of ten.

    Args:
      low: smallest value.
      high: largest.
      count: of the numbers, about.
    """
    if not high > low:
        low, high = low - (abs(low) or 1) * 0.05, high + (abs(high) or 1) * 0.05
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


class _Frame:
    """Where a chart's values lie on its paper."""

    def __init__(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        left: float = LEFT,
        width: float = WIDTH,
        height: float = HEIGHT,
        room: float = 0.0,
    ):
        self.left, self.width, self.height = left, width, height
        spread = (max(xs) - min(xs)) * room
        self.x_ticks = nice_ticks(min(xs) - spread, max(xs) + spread, 6)
        self.y_ticks = nice_ticks(min(ys), max(ys))
        self.x_range = (min(xs) - spread, max(xs) + spread) if max(xs) > min(xs) else None
        if room or self.x_range is None:
            self.x_range = (self.x_ticks[0], self.x_ticks[-1])

    def across(self, x: float) -> float:
        low, high = self.x_range or (0.0, 1.0)
        return self.left + (x - low) / (high - low) * (self.width - self.left - RIGHT)

    def up(self, y: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.height - BOTTOM - (y - low) / (high - low) * (self.height - TOP - BOTTOM)

    def point(self, x: float, y: float) -> str:
        return f"{self.across(x):.1f},{self.up(y):.1f}"

    def dot(self, x: float, y: float, colour: str, said: str, radius: float = 3) -> str:
        return (
            f'<circle cx="{self.across(x):.1f}" cy="{self.up(y):.1f}" r="{radius}" '
            f'fill="{colour}"><title>{html.escape(said)}</title></circle>'
        )

    def grid(self, x_label: str, names: Sequence[str] | None = None) -> str:
        """Returns the x axis: lines, numbers or names, and its label."""
        low, high = self.x_range or (0.0, 1.0)
        ticks = [t for t in self.x_ticks if low <= t <= high]
        if names is not None:
            ticks = list(map(float, range(len(names))))
        bottom = self.height - BOTTOM
        parts = []
        for tick in ticks:
            x = self.across(tick)
            text = names[round(tick)] if names is not None else _number(tick)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}" class="grid"/>')
            for line, part in enumerate(text.split("\n")):
                parts.append(
                    f'<text x="{x:.1f}" y="{bottom + 16 + 14 * line}" text-anchor="middle">'
                    f"{html.escape(part)}</text>"
                )
        middle = (self.left + self.width - RIGHT) / 2
        parts.append(
            f'<text x="{middle:.0f}" y="{self.height - 6}" text-anchor="middle" class="label">'
            f"{html.escape(x_label)}</text>"
        )
        return "".join(parts)

    def axes(self, x_label: str, y_label: str, names: Sequence[str] | None) -> str:
        parts = [self.grid(x_label, names)]
        for tick in self.y_ticks:
            y = self.up(tick)
            parts.append(
                f'<line x1="{self.left}" x2="{self.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                f'class="grid"/><text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{_number(tick)}</text>"
            )
        middle = (TOP + self.height - BOTTOM) / 2
        parts.append(
            f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle" '
            f'class="label">{html.escape(y_label)}</text>'
        )
        return "".join(parts)


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img" '
        f'aria-label="{html.escape(title)}">{"".join(parts)}</svg>'
    )


def _number(value: float) -> str:
    """Returns a number with four digits, thousands apart."""
    if not math.isfinite(value):
        return "unknown"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
