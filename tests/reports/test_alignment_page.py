import html.parser
import re

import numpy as np
import pytest

from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.reports.alignment_page import END, alignment_page

HOSTILE = [
    "<script>alert(1)</script>",
    "</table></body>",
    "\"><img src=x onerror=alert('x')>",
    "&amp;",
    "&",
    "'",
    "<!--",
    "]]>",
    "{braces}",
    "%s",
    "λόγος",
    "नमस्ते",
    "Привет",
    "漢字",
    "שלום",
    "🙂",
]
VOID = {"meta", "link", "br", "img"}


class Reader(html.parser.HTMLParser):
    """Reads a page strictly: every element is closed in its order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.cells, self.elements = [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "bdi":
            self.words.append("")
        if tag == "td":
            self.cells.append(dict(attrs))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "bdi":
            self.words[-1] += data

    def handle_comment(self, data):
        raise AssertionError("a comment")


def pair(source, target, seed=0):
    shape = (len(target), len(source) + 1)
    weights = np.random.default_rng(seed).dirichlet(np.ones(shape[1]), shape[0])
    return WordAlignment(source, target, weights.astype(np.float32), [1] * len(source))


def page_of(*pairs, gold=None):
    named = [(f"pair <{n}>", p) for n, p in enumerate(pairs)]
    return alignment_page(named, title="A <title>", gold=gold)


def test_it_parses_and_holds_every_word_escaped():
    page = page_of(pair(HOSTILE, HOSTILE[::-1]), pair(["a"], ["b"]))
    reader = Reader(page)
    assert reader.words == [*HOSTILE, END, *HOSTILE[::-1], "a", END, "b"]
    assert [tag for tag, _ in reader.elements].count("script") == 1  # the page's own
    assert not any("onerror" in attributes for _, attributes in reader.elements)
    assert [tag for tag, _ in reader.elements].count("section") == 2


def test_every_weight_is_in_its_cell():
    alignment = pair(["x", "y", "z"], ["a", "b"], seed=3)
    reader = Reader(page_of(alignment))
    shown = [float(cell["style"].removeprefix("--w:")) for cell in reader.cells]
    np.testing.assert_allclose(np.reshape(shown, (2, 4)), alignment.weights, atol=5e-4)
    assert [float(cell["title"]) for cell in reader.cells] == shown


@pytest.mark.parametrize("weight", [0.0, 1.0, 0.1, 0.0004, 0.9996])
def test_round_weights_are_numbers_that_css_reads(weight):
    alignment = WordAlignment(["x"], ["a"], np.array([[weight, 1 - weight]], np.float32), [1])
    first, _ = Reader(page_of(alignment)).cells
    assert re.fullmatch(r"--w:\d(\.\d*[1-9])?", first["style"])


def test_gold_links_have_frames():
    alignment = pair(["x", "y"], ["a", "b"])
    reader = Reader(page_of(alignment, gold=[parse_line("0-0 1?0")]))
    kinds = [cell.get("class") for cell in reader.cells]
    assert kinds == ["sure", "possible", None, None, None, None]
    assert "gold" not in page_of(alignment)


def test_what_html_cannot_hold_is_replaced():
    page = page_of(pair(["a\0b", "c\x1bd", "\ud800"], ["\u202e"]))
    page.encode()
    assert not set(page) & {"\0", "\x1b", "\u202e"}
    assert Reader(page).words[:3] == ["a\ufffdb", "c\ufffdd", "\ufffd"]


def test_it_loads_nothing_and_knows_light_and_dark():
    page = page_of(pair(["a"], ["b"]))
    assert not re.search(r"https?:|//|@import|url\(|src=|href=", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "color-scheme: light dark" in page
    assert page.startswith("<!DOCTYPE html>")


def test_every_target_word_can_be_pointed_at_and_reached_by_the_keyboard():
    reader = Reader(page_of(pair(["a", "b"], ["c", "d"])))
    rows = [attributes for tag, attributes in reader.elements if attributes.get("scope") == "row"]
    assert [row["tabindex"] for row in rows] == ["0", "0"]
    assert "pointerover" in page_of(pair(["a"], ["b"]))
