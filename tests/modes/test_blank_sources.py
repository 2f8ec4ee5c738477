import copy
import io
import json
from itertools import pairwise

import numpy as np
import pytest

from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.evaluation.given_pairs import GivenTexts
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.modes.align import Drawing, align
from bahdanau_jax.modes.score import score
from bahdanau_jax.modes.translate import Wanted, translate
from bahdanau_jax.reports.evaluation_report import write_outputs

SOURCES = ["fed", "", "cafe", "   ", "bead", " ", "\u2003", "decaf", "a b", " fed"]
BLANK = [number for number, source in enumerate(SOURCES) if not source.strip()]


@pytest.fixture(scope="module", params=[{}, {"decode.temperature": 1.0}, {"decode.beam_size": 3}])
def run(trained, request):
    return open_run(trained.directory, "best", request.param)


@pytest.fixture
def split(run, tmp_path):
    for name in ("train", "dev", "test"):
        lines = [f"{source}\t{number % 3 * 'A '}A\n" for number, source in enumerate(SOURCES)]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    config = copy.deepcopy(run.config.data)
    config.source = f"tsv:{tmp_path}"
    return open_data(config, run.vocabularies, lambda _: None).evaluation_split("test")


def test_what_evaluate_writes_is_what_translate_writes_of_the_same_lines(run, split, tmp_path):
    measured = run.evaluator.measure(run.params, split)
    write_outputs(run, tmp_path, split, measured)
    lines = "".join(f"{example.source}\n" for example in split.examples)
    assert lines.split("\n")[:-1] == SOURCES
    out, alignments = io.StringIO(), io.StringIO()
    translate(run, io.BytesIO(lines.encode()), out, Wanted(alignments="json"), alignments)
    assert (tmp_path / "outputs" / "test.txt").read_text() == out.getvalue()
    outputs = out.getvalue().split("\n")
    assert [n for n, output in enumerate(outputs[:-1]) if not output] == BLANK
    pairs = zip(
        (tmp_path / "alignments" / "test.jsonl").read_text().splitlines(),
        alignments.getvalue().splitlines(),
        strict=True,
    )
    for ours, theirs in pairs:
        ours, theirs = json.loads(ours), json.loads(theirs)
        assert (ours["source"], ours["target"]) == (theirs["source"], theirs["target"])
        if ours["source"]:
            np.testing.assert_allclose(ours["alignment"], theirs["alignment"], atol=2e-4)
    figures = run.evaluator.figures(split, measured)
    assert figures["unended"] == sum(not output.ended for output in measured.outputs)


def test_all_modes_read_a_blank_source_as_an_empty_one(run, split, tmp_path):
    target = "A B"
    out = io.StringIO()
    score(run, [(SOURCES[number], target) for number in BLANK], out)
    assert len(set(out.getvalue().splitlines())) == 1
    # The likelihood of an evaluation is that of the same pairs when they are scored.
    scored = io.StringIO()
    score(run, [(x.source, x.references[0]) for x in split.examples], scored)
    likelihood = run.evaluator.likelihood(run.params, split.pairs)
    values = [-float(line.split("\t")[0]) for line in scored.getvalue().splitlines()]
    np.testing.assert_allclose(values, likelihood.nll, atol=1e-4)
    links = io.StringIO()
    pairs = [(SOURCES[number], target) for number in BLANK]
    align(run, GivenTexts(pairs), links, Drawing(tmp_path / "drawn", 0))
    assert links.getvalue() == "\n" * len(BLANK)
    lengths = split.sources.source_lengths[BLANK]
    assert all(first == second == 1 for first, second in pairwise(lengths))


def test_what_ends_a_line_for_some_program_is_a_space_in_both(run, split, tmp_path, monkeypatch):
    monkeypatch.setattr(
        type(run.evaluator), "text", lambda self, output: "A\tB\u2028C" if output.tokens else ""
    )
    measured = run.evaluator.measure(run.params, split)
    write_outputs(run, tmp_path, split, measured)
    out = io.StringIO()
    translate(run, io.BytesIO("\n".join(SOURCES).encode()), out)
    assert (tmp_path / "outputs" / "test.txt").read_text() == out.getvalue()
    assert out.getvalue().startswith("A B C\n\nA B C\n")
