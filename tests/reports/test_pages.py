import importlib.resources
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import jinja2
import pytest

from bahdanau_jax.reports import pages

ROOT = Path(__file__).parents[2]


def templates():
    folder = importlib.resources.files("bahdanau_jax.reports").joinpath("templates")
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_every_template_is_read_with_the_package_and_belongs_to_it():
    assert {*templates()} == {f"{x}.html.j2" for x in ("alignment", "alignments", "comparison")}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    (pattern,) = settings["package-data"]["bahdanau_jax.reports"]
    assert all(fnmatch(f"templates/{name}", pattern) for name in templates())


def test_only_pictures_that_the_package_draws_are_taken_for_markup():
    for name, text in templates().items():
        assert {*re.findall(r"(\w+) *\| *safe", text)} <= {"chart", "lengths"}, name
        assert "autoescape" not in text


def test_a_value_that_is_not_given_is_an_error():
    with pytest.raises(jinja2.UndefinedError, match="legend"):
        pages.render("alignments", title="", sections=[], end="")


def test_values_are_escaped():
    page = pages.render("alignments", title="<b>&", legend="'", sections=[], end="")
    assert page.count("&lt;b&gt;&amp;") == 2 and "<b>" not in page
