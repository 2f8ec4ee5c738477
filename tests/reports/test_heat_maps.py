import logging
import subprocess
import sys

import numpy as np
import pytest
from matplotlib import image

from bahdanau_jax.reports import heat_maps
from bahdanau_jax.reports.heat_maps import Alignment, heat_map

MISSING = "\U0010fffd"  # for private use: no font has it


@pytest.fixture(autouse=True)
def nothing_reported_yet(monkeypatch):
    monkeypatch.setattr(heat_maps, "_reported", set())


def figure_of(monkeypatch):
    """Returns a list that will hold the figure saved last."""
    figures = []
    save = heat_maps.Figure.savefig

    def keep(figure, path, **options):
        figures.append(figure)
        save(figure, path, **options)

    monkeypatch.setattr(heat_maps.Figure, "savefig", keep)
    return figures


def labels(ticks):
    return [text.get_text() for text in ticks]


def test_source_runs_across_the_top_and_target_down(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    weights = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]])
    heat_map(tmp_path / "a.png", Alignment(weights, ["x", "y", "z"], ["p", "q"]))
    (axes,) = figures[0].axes
    assert labels(axes.get_xticklabels()) == ["x", "y", "z"]
    assert labels(axes.get_yticklabels()) == ["p", "q"]
    assert axes.xaxis.get_ticks_position() == "top"
    assert axes.get_ylim() == (1.5, -0.5)
    (shown,) = axes.images
    np.testing.assert_array_equal(shown.get_array(), weights)


def test_black_is_zero_and_white_is_one_whatever_the_largest_weight(tmp_path):
    heat_map(tmp_path / "a.png", Alignment(np.full((1, 2), 0.5), ["", ""], [""]))
    grey = image.imread(tmp_path / "a.png")[..., 0]
    assert np.isclose(grey, 0.5, atol=0.01).mean() > 0.1
    heat_map(tmp_path / "b.png", Alignment(np.array([[0.0, 1.0]]), ["", ""], [""]))
    picture = image.imread(tmp_path / "b.png")[..., 0]
    inside = picture[:, picture.min(axis=0) < 0.5]
    assert (inside[:, : inside.shape[1] // 3] == 0).mean() > 0.2


def test_cells_are_square_and_labels_stay_on_the_page(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    draw = np.random.default_rng(0)
    pairs = []
    for s, t in [(3, 12), (15, 2), (1, 1)]:
        source = [f"source-{'m' * i}" for i in range(s)]
        target = ["W" * i for i in range(t)]
        pairs.append(Alignment(draw.dirichlet(np.ones(s), t), source, target, "pair of sentences"))
    heat_maps.heat_maps(tmp_path / "a.png", pairs)
    (figure,) = figures
    page = figure.bbox
    for axes, pair in zip(figure.axes, pairs, strict=True):
        box = axes.get_window_extent()
        cell = box.width / len(pair.source), box.height / len(pair.target)
        assert cell[0] == pytest.approx(cell[1])
        for text in [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]:
            extent = text.get_window_extent()
            if text.get_text():
                assert page.x0 <= extent.x0 < extent.x1 <= page.x1
                assert page.y0 <= extent.y0 < extent.y1 <= page.y1


def test_dollars_and_underscores_are_drawn_as_they_are(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    tokens = ["$x_1$", r"$\frac{$", "_", "a$b$"]
    heat_map(tmp_path / "a.png", Alignment(np.eye(4), tokens, tokens, r"$\nothing$"))
    (axes,) = figures[0].axes
    texts = [*axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]
    assert labels(texts) == [*tokens, *tokens, r"$\nothing$"]
    assert not any(text.get_parse_math() for text in texts)


def test_missing_glyphs_are_reported_once_and_replaced(tmp_path, monkeypatch, caplog):
    figures = figure_of(monkeypatch)
    pair = Alignment(np.eye(2), [f"a{MISSING}", "b\nc"], ["λόγος", "ž"])
    for _ in range(2):
        heat_map(tmp_path / "a.png", pair)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert MISSING in record.getMessage()
    (axes,) = figures[0].axes
    assert labels(axes.get_xticklabels()) == [f"a{heat_maps.REPLACEMENT}", "b c"]
    assert labels(axes.get_yticklabels()) == ["λόγος", "ž"]


def test_another_font_stands_in_where_the_first_lacks_characters(monkeypatch):
    monkeypatch.setattr(heat_maps, "_upright", lambda: ["Few", "Many"])
    known = {"DejaVu Sans": "ab", "Few": "cd", "Many": "cde"}
    monkeypatch.setattr(heat_maps, "_characters", lambda family: frozenset(known[family]))
    assert heat_maps._font("ab").get_family() == ["DejaVu Sans"]
    assert heat_maps._font("abcde").get_family() == ["DejaVu Sans", "Many"]


def test_a_page_that_would_be_too_large_is_scaled_down(tmp_path, monkeypatch):
    figures = figure_of(monkeypatch)
    monkeypatch.setattr(heat_maps, "LARGEST", 4.0)
    heat_map(tmp_path / "a.png", Alignment(np.zeros((2, 60)), ["s"] * 60, ["t"] * 2))
    assert figures[0].get_size_inches().max() == pytest.approx(4.0)


def test_weights_must_fit_their_tokens(tmp_path):
    with pytest.raises(ValueError, match=r"\(2, 3\) for 3 target and 2 source"):
        heat_map(tmp_path / "a.png", Alignment(np.zeros((2, 3)), ["a", "b"], ["a", "b", "c"]))
    with pytest.raises(ValueError, match="at least one"):
        heat_maps.heat_maps(tmp_path / "a.png", [])


def test_pyplot_is_never_imported():
    program = "import sys, bahdanau_jax.reports.heat_maps as _; "
    program += "import bahdanau_jax.reports.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
