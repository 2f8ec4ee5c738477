"""Runs as Python objects: the same outputs and figures as the command line's, and more of each."""

import html.parser
import io
import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

import bahdanau_jax
from bahdanau_jax import InputError, load_run, train
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.interface.results import Attended
from bahdanau_jax.modes.score import score
from bahdanau_jax.modes.translate import translate
from bahdanau_jax.workdir.metrics_log import read_result
from experiments import cmudict

TEXTS = ["fed", "abcabc", " ", "a", "bad"]


@pytest.fixture(scope="module")
def run(trained):
    return load_run(trained.directory)


@pytest.mark.parametrize("beam", [1, 3])
def test_texts_are_those_of_the_command_line(run, trained, beam):
    out = io.StringIO()
    opened = open_run(trained.directory, settings={"decode.beam_size": beam})
    translate(opened, io.BytesIO("\n".join(TEXTS).encode()), out)
    made = list(run.translate(TEXTS, beam_size=beam))
    assert [each.text for each in made] == out.getvalue().splitlines()
    assert [each.source for each in made] == TEXTS


def test_the_log_probability_of_an_output_is_what_scoring_it_gives(run, trained):
    made = [each for each in run.translate(TEXTS, beam_size=2, nbest=2) if each.tokens]
    for one in itertools.chain(made, *(each.others for each in made)):
        assert one.ended
        (scored,) = run.score([(one.source, one.text)])
        assert scored.tokens == one.tokens
        np.testing.assert_allclose(
            one.token_log_probabilities, scored.token_log_probabilities, atol=1e-5
        )
        np.testing.assert_allclose(one.alignment, scored.alignment, atol=1e-5)
        out = io.StringIO()
        score(open_run(trained.directory), [(one.source, one.text)], out)
        assert float(out.getvalue().split()[0]) == pytest.approx(one.log_probability, abs=1e-4)


def test_the_search_scores_by_that_log_probability(run):
    for each in run.translate(TEXTS, beam_size=3, length_penalty="none"):
        assert each.score == pytest.approx(each.log_probability, abs=1e-4)


def test_rows_are_tokens_and_columns_the_sources(run):
    for each in run.translate(TEXTS):
        assert each.alignment.shape == (len(each.tokens), len(each.source_tokens))
        assert len(each.token_log_probabilities) == len(each.tokens)
        assert (each.token_log_probabilities <= 0).all()
        np.testing.assert_allclose(each.alignment.sum(axis=1), 1.0, rtol=1e-5)


def test_an_output_that_is_cut_off_has_no_end_mark(run):
    whole = next(run.translate(["abcabc"]))
    (cut,) = run.translate(["abcabc"], suppress_unk=True, max_length_ratio=0.0)
    assert whole.ended and len(cut.tokens) <= 10
    if not cut.ended:
        assert len(cut.token_log_probabilities) == len(cut.tokens) == 10


def test_others_are_ranked_behind_the_best(run):
    for each in run.translate(["abcabc", "fed"], beam_size=4, nbest=4):
        scores = [each.score, *(other.score for other in each.others)]
        assert scores == sorted(scores, reverse=True) and len(scores) == 4
        assert len({each.text, *(other.text for other in each.others)}) == 4


def test_texts_without_end_are_read_as_they_are_needed(run):
    endless = itertools.cycle(["fed", "abc"])
    sources = [each.source for each in itertools.islice(run.translate(endless), 5)]
    assert sources == ["fed", "abc", "fed", "abc", "fed"]


def test_figures_are_those_of_the_run(run, trained):
    result = read_result(trained.directory)
    assert result is not None
    for name, value in run.evaluate("test").items():
        if name in ("wer", "per", "nll_per_token", "sentences"):
            assert value == pytest.approx(result[f"test/{name}"]), name
    assert run.evaluate("test", max_length_ratio=0.0, beam_size=2) != run.evaluate("test")


@pytest.mark.parametrize(
    ("arguments", "decode", "error", "says"),
    [
        ("fed", {}, TypeError, r"\[text\]"),
        (["fed"], {"beams": 2}, TypeError, "beams"),
        (["fed"], {"nbest": 3}, InputError, "beam_size=3"),
        (["fed"], {"beam_size": 0}, InputError, "decode.beam_size"),
    ],
)
def test_what_cannot_be_is_refused_at_once(run, arguments, decode, error, says):
    with pytest.raises(error, match=says):
        run.translate(arguments, **decode)


def test_no_run_is_an_error_that_says_so(tmp_path):
    with pytest.raises(InputError):
        load_run(tmp_path)


def test_training_goes_on_where_there_is_a_run(trained, run, tmp_path):
    shutil.copytree(trained.directory, tmp_path / "run")
    again = train(trained.config, tmp_path / "run")
    assert again.step == run.step and str(tmp_path / "run") in repr(again)


class Cells(html.parser.HTMLParser):
    """Reads the words of a table's heads, and counts its cells."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip())


def test_a_notebook_shows_the_weights_as_a_table():
    weights = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    one = Attended("<b>", "&x", ["<i>", "s"], ["&", "t"], np.zeros(2, np.float32), weights)
    page = Cells()
    page.feed(one._repr_html_())
    assert page.tags.count("td") == 4 and not {"b", "i"} & {*page.tags}
    assert page.texts == ["<b> → &x", "<i>", "s", "&", "t"]
    assert one._repr_html_().index("0.250") < one._repr_html_().index("0.750")


def test_importing_the_package_imports_neither_jax_nor_numpy():
    code = "import sys, bahdanau_jax; print({'jax', 'numpy', 'flax'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_the_lines_of_the_document_run_one_after_another(trained, tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/cmudict").symlink_to(trained.directory)
    (tmp_path / "words.txt").write_text("fed\nbad\n")
    monkeypatch.setattr(cmudict, "get_config", lambda: tiny.config(trained.config.data.source))
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert len(blocks) == 5
    assert names["run"].config.model.attention.score == "general"
    assert names["figures"]["wer"] == run_figures(trained, "dev", beam_size=5)["wer"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(names["hello"].text) and len(lines) > 5


def run_figures(trained, split, **decode):
    return load_run(trained.directory).evaluate(split, **decode)


def test_every_name_that_is_promised_is_there():
    assert all(getattr(bahdanau_jax, name) for name in bahdanau_jax.__all__)
    with pytest.raises(AttributeError, match="no attribute 'load'"):
        bahdanau_jax.load  # noqa: B018
