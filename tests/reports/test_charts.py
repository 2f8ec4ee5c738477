import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from bahdanau_jax.reports import charts

NAN = math.nan


def parse(svg):
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    return root


def number(element, name):
    return float(element.get(name) or "nan")


def titles(root):
    return [element.text for element in root.iter("title")]


def places(root, tag="circle"):
    return [(number(e, "cx"), number(e, "cy")) for e in root.iter(tag)]


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.1, 0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (28.3, 31.9, [28, 29, 30, 31, 32]),
        (-1.2, 0.3, [-1.5, -1.0, -0.5, 0.0, 0.5]),
    ],
)
def test_ticks_are_round_and_cover_the_range(low, high, wanted):
    ticks = charts.nice_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high
    if high != 0.3:
        assert ticks == pytest.approx(wanted)


def test_ticks_of_a_single_value_surround_it():
    for value in (0.0, 5.0, -3.0, 1e6):
        ticks = charts.nice_ticks(value, value)
        assert ticks[0] < value < ticks[-1]


def test_lines_are_higher_where_the_value_is_and_bands_hold_them():
    a = charts.Series("a<b", [0, 10, 20], [1.0, 3.0, 2.0], [0.5, 2.5, 1.5], [1.5, 3.5, 2.5])
    b = charts.Series("b", [0, 10, 20], [2.0, 2.0, 2.0], [NAN] * 3, [NAN] * 3)
    root = parse(charts.lines([a, b], "step", "WER"))
    dots = places(root)
    assert dots[1][1] < dots[2][1] < dots[0][1]  # down is more in SVG
    assert dots[0][0] < dots[1][0] < dots[2][0]
    assert len(list(root.iter("polyline"))) == 2
    (band,) = root.iter("polygon")
    assert len((band.get("points") or "").split()) == 6
    assert titles(root)[0] == "a<b, step 0: 1 (0.5 to 1.5)"
    assert titles(root)[3] == "b, step 0: 2"


def test_lines_may_have_names_in_place_of_a_scale():
    s = charts.Series("a", [0.0, 1.0], [1.0, 2.0], [NAN] * 2, [NAN] * 2)
    root = parse(charts.lines([s], "length", "BLEU", ["1–5", "≥ 6"]))
    texts = [e.text for e in root.iter("text")]
    assert {"1–5", "≥ 6"} <= set(texts)
    assert titles(root) == ["a, length 1–5: 1", "a, length ≥ 6: 2"]


def test_a_single_point_can_be_drawn():
    s = charts.Series("a", [5.0], [1.0], [NAN], [NAN])
    (x, y) = places(parse(charts.lines([s], "step", "WER")))[0]
    assert 0 < x < charts.WIDTH and 0 < y < charts.HEIGHT


def test_scatter_joins_the_front():
    marks = [
        charts.Mark("small", 1.0, 30.0, True),
        charts.Mark("large", 9.0, 20.0, True),
        charts.Mark("bad", 8.0, 35.0, False),
    ]
    root = parse(charts.scatter(marks, "parameters", "WER"))
    (front,) = root.iter("polyline")
    assert len((front.get("points") or "").split()) == 2
    bold = [e.text for e in root.iter("text") if e.get("font-weight")]
    assert bold == ["small", "large"]
    assert len(places(root)) == 3


def test_intervals_stand_right_of_zero_where_they_are_above_it():
    rows = [
        charts.Interval("a − b", -1.0, -2.0, -0.1),
        charts.Interval("a − c", 0.5, -0.5, 1.5),
        charts.Interval("b − c", 2.0, NAN, NAN),
    ]
    root = parse(charts.intervals(rows, "difference"))
    (zero,) = [number(e, "x1") for e in root.iter("line") if e.get("class") == "zero"]
    xs = [x for x, _ in places(root)]
    assert xs[0] < zero < xs[1] < xs[2]
    bars = [e for e in root.iter("line") if e.get("stroke")]
    assert [e.get("stroke") for e in bars] == ["var(--c0)", "var(--muted)"]
    assert number(bars[0], "x2") < zero < number(bars[1], "x2")


def test_a_heat_map_has_a_cell_for_every_pair_with_its_weight():
    weights = np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])
    root = parse(charts.heat_map(weights, ["a", "<b>", "</s>"], ["x", "&"]))
    cells = [number(e, "fill-opacity") for e in root.iter("rect")]
    assert cells == weights.ravel().tolist()
    assert titles(root)[1] == "x ← <b>: 0.10"
    assert [e.text for e in root.iter("text")] == ["a", "<b>", "</s>", "x", "&"]


def test_nothing_is_drawn_outside_the_paper_or_loaded_from_elsewhere():
    s = charts.Series("a", [3, 700], [-5.0, 1e6], [-6.0, 9e5], [0.0, 2e6])
    svg = charts.lines([s], "step", "loss")
    for x, y in places(parse(svg)):
        assert 0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT
    for points in re.findall(r'points="([^"]+)"', svg):
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT
    assert "href" not in svg and "url(" not in svg
