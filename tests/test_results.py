"""The tables of the documents are those of the studies' results."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("tables", ROOT / "experiments/results/tables.py")
assert _spec is not None and _spec.loader is not None
tables = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tables)


@pytest.mark.parametrize("name", tables.TABLES)
def test_a_document_has_the_figures_of_its_study(name):
    table = tables.TABLES[name]
    text = (ROOT / table.document).read_text(encoding="utf-8")
    assert tables.with_table(text, name, table) == text


@pytest.mark.parametrize("name", tables.TABLES)
def test_every_run_of_a_study_is_in_one_row(name):
    lines = (tables.HERE / name / "results.csv").read_text(encoding="utf-8").splitlines()
    rows = tables.markdown(name, tables.TABLES[name]).splitlines()[2:]
    assert sum(int(row.split("|")[2]) for row in rows) == len(lines) - 1


def test_another_result_would_be_seen(tmp_path, monkeypatch):
    name, table = next(iter(tables.TABLES.items()))
    (tmp_path / name).mkdir()
    results = (tables.HERE / name / "results.csv").read_text(encoding="utf-8")
    (tmp_path / name / "results.csv").write_text(results.replace(",31.", ",41.", 1))
    text = (ROOT / table.document).read_text(encoding="utf-8")
    monkeypatch.setattr(tables, "HERE", tmp_path)
    assert tables.with_table(text, name, table) != text


def test_a_mean_stands_with_its_deviation():
    column = tables.Column("", "", 1)
    assert tables._cell([1.0, 2.0, 3.0], column) == "2.0 ± 1.0"
    assert tables._cell([2.0, 2.0], column) == "2.0"


def test_a_study_is_small_and_names_no_path_of_a_machine():
    for path in tables.HERE.glob("*/*"):
        assert path.stat().st_size < 2**20
        text = path.read_text(encoding="utf-8")
        assert not any(place in text for place in ("/root/", "/home/", "/tmp/")), path
