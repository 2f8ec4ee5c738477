import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from bahdanau_jax.reports import plots
from bahdanau_jax.reports.plots import Curve, Interval, Mark, by_length

NAN = math.nan
RISING = Curve("a<b", [0, 10, 20], [1.0, 3.0, 2.0], [0.5, 2.5, 1.5], [1.5, 3.5, 2.5])
LEVEL = Curve("b", [0, 10, 20], [2.0, 2.0, 2.0], [NAN] * 3, [NAN] * 3)


def parse(svg):
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    return root


def number(element, name):
    return float(element.get(name) or "nan")


def titles(root):
    return [element.text for element in root.iter("title")]


def places(root):
    return [(number(e, "cx"), number(e, "cy")) for e in root.iter("circle")]


def groups(root, name):
    """Returns the paths of the groups of a class, each as its (x, y)."""
    paths = []
    for group in root.iter("g"):
        if group.get("class") == name:
            (path,) = group.iter("path")
            numbers = [float(x) for x in re.findall(r"-?[0-9.]+", path.get("d") or "")]
            paths.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return paths


def figure_of(monkeypatch):
    """Returns a list that will hold the figures saved."""
    figures = []
    save = plots.Figure.savefig

    def keep(figure, *args, **kwargs):
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(plots.Figure, "savefig", keep)
    return figures


def labels(ticks):
    return [text.get_text() for text in ticks]


def test_curves_are_higher_where_the_value_is_and_bands_hold_them():
    root = parse(plots.training_curves([RISING, LEVEL], "WER"))
    dots = places(root)
    assert dots[1][1] < dots[2][1] < dots[0][1]  # down is more in SVG
    assert dots[0][0] < dots[1][0] < dots[2][0]
    (band,) = groups(root, "band")  # the other's isn't known
    assert len({*band}) == 6
    assert min(y for _, y in band) < dots[1][1] and max(y for _, y in band) > dots[0][1]
    assert titles(root)[0] == "a<b, step 0: 1 (0.5 to 1.5)"
    assert titles(root)[3] == "b, step 0: 2"
    strokes = re.findall(r"var\(--c[0-9]\)", " ".join(e.get("style") or "" for e in root.iter()))
    assert {*strokes} == {"var(--c0)", "var(--c1)"}


def test_a_long_curve_keeps_every_point_and_its_title():
    steps = list(range(0, 90_000, 300))
    curve = Curve("a", steps, [1.0] * 300, [NAN] * 300, [NAN] * 300)
    root = parse(plots.training_curves([curve], "loss"))
    assert len(places(root)) == 300
    assert titles(root)[-1] == "a, step 89,700: 1"


def test_curves_by_length_have_the_names_of_the_buckets():
    curve = Curve("a", [0, 1], [1.0, 2.0], [NAN] * 2, [NAN] * 2)
    root = parse(plots.length_curves([curve], ["1-5\n(7)", "6+\n(2)"], "BLEU"))
    assert {"1-5", "(7)", "6+", "(2)"} <= {e.text for e in root.iter("text")}
    across = "source length in words, n sentences"
    assert titles(root) == [f"a, {across} 1-5 (7): 1", f"a, {across} 6+ (2): 2"]


def test_a_single_point_can_be_drawn():
    (place,) = places(parse(plots.training_curves([Curve("a", [5], [1.0], [NAN], [NAN])], "WER")))
    assert 0 < place[0] < plots.WIDTH and 0 < place[1] < plots.HEIGHT


def test_the_front_is_joined_and_its_names_are_bold():
    marks = [
        Mark("small", 1.0, 30.0, True),
        Mark("large", 9.0, 20.0, True),
        Mark("bad", 8.0, 35.0, False),
    ]
    root = parse(plots.front(marks, "parameters", "WER"))
    (line,) = groups(root, "front")
    assert sum(line, ()) == pytest.approx(sum(places(root)[:2], ()))
    texts = {e.text: e.get("style") or "" for e in root.iter("text")}
    assert {name for name, style in texts.items() if "700" in style or "bold" in style} == {
        "small",
        "large",
    }
    assert titles(root)[2] == "bad: parameters 8, WER 35"


def test_intervals_stand_right_of_zero_where_they_are_above_it():
    rows = [
        Interval("a − b", -1.0, -2.0, -0.1),
        Interval("a − c", 0.5, -0.5, 1.5),
        Interval("b − c", 2.0, NAN, NAN),
    ]
    svg = plots.intervals(rows, "difference")
    root = parse(svg)
    ((zero, _), _) = groups(root, "zero")[0]
    dots = places(root)
    assert dots[0][0] < zero < dots[1][0] < dots[2][0]
    assert dots[0][1] < dots[1][1] < dots[2][1]  # in the order in which they were given
    first, second = groups(root, "bar")
    assert first[1][0] < zero and second[0][0] < zero < second[1][0]
    fills = [(e.get("style") or "").split(";")[0] for e in root.iter("circle")]
    assert fills == ["fill: var(--c0)", "fill: var(--muted)", "fill: var(--muted)"]
    assert {"a − b", "a − c", "b − c"} <= {e.text for e in root.iter("text")}


@pytest.mark.parametrize("label", ["$x_1$ & <b>", r"$\frac{$", "漢字 🙂", "\u0378"])
def test_whatever_a_name_is_made_of_it_stays_text_and_is_measured_in_silence(label):
    svg = plots.front([Mark(label, 1.0, 2.0, True)], label, label)
    assert [e.text for e in parse(svg).iter("text")].count(label) == 3


def test_nothing_is_drawn_outside_the_paper_or_loaded_from_elsewhere():
    curve = Curve("a", [3, 700], [-5.0, 1e6], [-6.0, 9e5], [0.0, 2e6])
    svg = plots.training_curves([curve], "loss")
    root = parse(svg)
    for x, y in [*places(root), *groups(root, "band")[0]]:
        assert 0 <= x <= plots.WIDTH and 0 <= y <= plots.HEIGHT
    for mark in ("href", "url(", "<style", "<defs", " id=", "#c0"):
        assert mark not in svg, mark


def test_the_same_figures_give_the_same_bytes():
    first, second = (plots.training_curves([RISING, LEVEL], "WER") for _ in range(2))
    assert first == second
    assert not re.search(r"<!--|<metadata|<\?xml|date", first)


def test_one_system_is_bars_and_several_are_lines(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    lengths, one = ["1-10\nn=30", "11\nn=4", "12+\nn=9"], [25.0, 20.0, 1.0]
    by_length(tmp_path / "a.png", lengths, {"one": one}, "BLEU")
    other = [score + 1 for score in one]
    by_length(tmp_path / "b.png", lengths, {"one": one, "$other$": other}, "BLEU")
    bars, lines = (figure.axes[0] for figure in figures)
    assert [patch.get_height() for patch in bars.patches] == one
    assert labels(bars.get_xticklabels()) == lengths
    assert [list(line.get_ydata()) for line in lines.lines] == [[25, 20, 1], [26, 21, 2]]
    assert not any(text.get_parse_math() for text in lines.get_legend().get_texts())


def test_bars_have_their_intervals(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    limits = {"one": [(20.0, 30.0), (1.0, 2.5)]}
    by_length(tmp_path / "a.png", ["1-5\nn=9", "6+\nn=2"], {"one": [25.0, 2.0]}, "WER, %", limits)
    (axes,) = figures[0].axes
    (lines,) = axes.collections
    ends = [(x, low, high) for (x, low), (_, high) in lines.get_segments()]
    assert ends == [(0, 20, 30), (1, 1, 2.5)]
    assert axes.get_xlabel() == "source length in words, n sentences"


def test_a_system_without_a_score_for_each_bucket_is_refused(tmp_path):
    for lengths, scores in ([], {}), (["1-5"], {"a": [1.0], "b": [1.0, 2.0]}):
        with pytest.raises(ValueError, match="score of every system"):
            by_length(tmp_path / "a.png", lengths, scores, "BLEU")
