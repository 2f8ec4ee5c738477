"""Writes the tables of the documents from the results of the studies beside this file.

    python experiments/results/tables.py

A study is a folder with what `--mode=compare` wrote: `results.csv`, a line a run, and
`report.html`; `study.json` says by which commands and on which machine. A table stands in its
document between two comments that name its study. A test fails where a document and its data
differ.
"""

import csv
import statistics
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


class Column(NamedTuple):
    """A metric of `results.csv`, as a table shows it."""

    heading: str
    metric: str
    digits: int


class Table(NamedTuple):
    """Rows of runs that differ in their seeds alone, and the metrics that are shown of them."""

    document: str
    heading: str  # of the first column
    rows: dict[str, dict[str, str]]  # a row's name, and what its runs have in `results.csv`
    columns: tuple[Column, ...]


FEEDING = {"model.attention.query": "current", "model.readout": "attentional"}
TABLES = {
    "query_moments": Table(
        "docs/alignments.md",
        "query",
        {
            "`previous`": {"model.attention.query": "previous"},
            "`intermediate`": {"model.attention.query": "intermediate"},
            "`current`": {"model.attention.query": "current", "model.readout": "maxout"},
            "`current`, attentional readout, input feeding": FEEDING,
        },
        (
            Column("parameters", "parameters", 0),
            Column("dev WER, %", "dev/wer", 1),
            Column("test WER, %", "test/wer", 1),
            Column("test PER, %", "test/per", 2),
            Column("entropy, nats", "test/entropy", 2),
            Column("offset", "test/offset", 0),
        ),
    ),
}


def markdown(name: str, table: Table) -> str:
    """Returns a table, a line a row: mean ± standard deviation over the seeds."""
    with (HERE / name / "results.csv").open(encoding="utf-8", newline="") as file:
        runs = [run for run in csv.DictReader(file) if run["status"] == "finished"]
    heads = [table.heading, "seeds", *(column.heading for column in table.columns)]
    lines = [heads, ["---"] * len(heads)]
    for row, fields in table.rows.items():
        seeds = [run for run in runs if fields.items() <= run.items()]
        cells = [
            _cell([float(run[column.metric]) for run in seeds], column) for column in table.columns
        ]
        lines.append([row, str(len(seeds)), *cells])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def with_table(text: str, name: str, table: Table) -> str:
    """Returns a document's text with its table of a study as the results have it."""
    begin, end = f"<!-- study: {name} -->\n", "<!-- end -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    assert rest and after, f"{table.document} has no place for {name}"
    return before + begin + "\n" + markdown(name, table) + "\n" + end + after


def _cell(values: list[float], column: Column) -> str:
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    shown = f"{mean:,.{column.digits}f}"
    return f"{shown} ± {deviation:.{column.digits}f}" if deviation else shown


def main() -> None:
    """Rewrites the tables of all documents."""
    for name, table in TABLES.items():
        path = ROOT / table.document
        path.write_text(with_table(path.read_text("utf-8"), name, table), "utf-8")


if __name__ == "__main__":
    main()
