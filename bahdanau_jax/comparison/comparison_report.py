"""The mode `compare`: from a sweep's workdir to its report."""

from pathlib import Path
from typing import TextIO

from bahdanau_jax.comparison.compare import make_comparison, to_csv, to_markdown
from bahdanau_jax.comparison.report import page
from bahdanau_jax.comparison.sample_alignments import Sample, sample_alignments
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.terminal import say

PAGE, TABLE = "report.html", "results.csv"


def report(directory: Path, stream: TextIO) -> None:
    """Writes `report.html` and `results.csv` into a sweep's workdir, and its table to a stream.

    Args:
      directory: the sweep's workdir.
      stream: for the table, in Markdown.

    Raises:
      InputError: there is no finished run.
    """
    comparison = make_comparison(directory, say)
    samples: list[Sample] = []
    if comparison.test_set is not None:
        samples = sample_alignments(comparison.results.configurations, comparison.test_set)
    write_atomically(directory / TABLE, to_csv(comparison))
    write_atomically(directory / PAGE, page(comparison, samples))
    print(to_markdown(comparison), file=stream)
    say(f"the report is {directory / PAGE}; each cell's figures are in {directory / TABLE}")
