import copy
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
from launching import launch

from bahdanau_jax.data.gold_links import parse_line
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation import statistical_alignment
from bahdanau_jax.evaluation.gold_comparison import compare_with_gold
from bahdanau_jax.evaluation.metrics import METRICS
from bahdanau_jax.evaluation.statistical_alignment import StatisticalLinks
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.reports.evaluation_report import changed, part_lines, write_parts
from bahdanau_jax.workdir.metrics_log import read_metrics, read_result


def read_parts(directory, split):
    return json.loads((directory / "evaluation" / f"{split}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("split", "count"), [("dev", tiny.DEV), ("test", tiny.TEST)])
def test_a_finished_run_has_every_splits_outputs_alignments_and_parts(trained, split, count):
    outputs = (trained.directory / "outputs" / f"{split}.txt").read_text().splitlines()
    assert len(outputs) == count
    path = trained.directory / "alignments" / f"{split}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == count
    for text, line in zip(outputs, lines, strict=True):
        weights = np.array(line["alignment"])
        assert weights.shape == (len(line["target"]), len(line["source"]))
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-3 * len(line["source"]))
        assert " ".join(token for token in line["target"] if token != "</s>") == text
        assert line["source"][-1] == "</s>"
    parts = read_parts(trained.directory, split)
    for kind in ("by_length", "by_unknown_words"):
        assert sum(part["sentences"] for part in parts[kind]) == count
    assert (trained.directory / "evaluation" / f"{split}-length.png").stat().st_size > 1000


@pytest.mark.parametrize("name", ["outputs/test.txt", "alignments/test.jsonl"])
def test_files_that_are_not_what_an_evaluation_wrote_are_named(trained, tmp_path, name):
    shutil.copytree(trained.directory, tmp_path / "run")
    assert changed(tmp_path / "run", "test") == []
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes().replace(b"A", b"B"))
    assert changed(tmp_path / "run", "test") == [name]
    path.unlink()
    assert changed(tmp_path / "run", "test") == [name]
    parts = tmp_path / "run" / "evaluation" / "test.json"
    parts.write_text("{")
    assert changed(tmp_path / "run", "test") == ["evaluation/test.json"]
    parts.unlink()
    assert changed(tmp_path / "run", "test") == []


def test_intervals_hold_the_figures_and_parts_average_to_them(trained):
    result = read_result(trained.directory)
    assert result is not None
    parts = read_parts(trained.directory, "test")
    for name in ("per", "wer", "perplexity"):
        low, high = map(float, parts["intervals"][name])
        assert low <= result[f"test/{name}"] <= high
    wrong = sum(part["sentences"] * part["wer"] for part in parts["by_length"])
    assert wrong / tiny.TEST == pytest.approx(result["test/wer"])


def test_every_figure_of_a_result_has_a_row_in_the_table_of_metrics(trained, monkeypatch):
    none = StatisticalLinks(set(), set())
    monkeypatch.setattr(statistical_alignment, "installed", lambda: True)
    monkeypatch.setattr(statistical_alignment, "statistical_links", lambda p, _: [none] * len(p))
    result = read_result(trained.directory) or {}
    written = {name.split("/")[1] for name in result if "/" in name}
    run = open_run(trained.directory, "best")
    data = open_data(run.config.data, run.vocabularies, lambda _: None)
    gold = data.evaluation_split("test")._replace(links=[parse_line("0-0")] * tiny.TEST)
    written |= set(compare_with_gold(run, gold).figures())
    named = {name.removesuffix("_signature") for name in written}
    assert named - set(METRICS) == set(), "add a row to METRICS in evaluation/metrics.py"
    assert named >= {"wer", "entropy", "unended", "alignment_precision", "aer_eflomal"}


def test_what_is_printed_is_what_is_written(trained):
    lines = list(part_lines(trained.directory, "test"))
    parts = read_parts(trained.directory, "test")
    for part in parts["by_length"]:
        (line,) = [x for x in lines if x.startswith(f"test, source length {part['name']}\t")]
        assert f"\tsentences {part['sentences']}\t" in line
    assert sum("95 % interval" in line for line in lines) == len(parts["intervals"])
    for line in lines:
        assert line in trained.out.splitlines()


def test_every_evaluation_of_training_says_what_the_alignments_are_like(trained):
    evaluations = [x for x in read_metrics(trained.directory) if "dev/nll_per_token" in x]
    assert evaluations
    for line in evaluations:
        assert line["dev/entropy"] > 0
        assert 0 <= line["dev/end_weight"] <= 100
        assert 0 <= line["dev/unattended"] <= 100


def test_scores_of_text_come_in_parts_too(trained, tmp_path):
    run = open_run(trained.directory, "best")
    config = copy.deepcopy(run.config)
    config.evaluation.metrics = "bleu"
    other = dataclasses.replace(run, config=config)
    vocabularies = Vocabularies.load(trained.directory / "vocabulary")
    data = open_data(config.data, vocabularies, lambda _: None)
    split = data.evaluation_split("test")
    gold = split._replace(links=[parse_line("0-0")] * tiny.TEST)
    measured = run.evaluator.measure(run.params, split)
    write_parts(other, tmp_path, split, measured, compare_with_gold(other, gold))
    parts = read_parts(tmp_path, "test")
    names = {"bleu", "chrf", "ter", "exact_match", "perplexity", "aer"}
    assert set(parts["intervals"]) == names
    for part in parts["by_length"] + parts["by_unknown_words"]:
        assert set(part) == names | {"name", "sentences"}
    (argmax,) = [x for x in parts["alignments"] if x["name"] == "argmax"]
    assert 0 <= float(argmax["aer"]) <= 100
    assert list(part_lines(tmp_path, "test"))
    assert (tmp_path / "evaluation" / "test-length.png").exists()


def test_the_mode_evaluate_takes_gold_links_from_a_file(trained, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(trained.directory, directory)
    words = [line.split("\t")[0] for line in tiny_lines(trained, "test")]
    gold = tmp_path / "gold"
    gold.write_text("".join(" ".join(f"{n}-{n}" for n in range(len(w))) + "\n" for w in words))
    command = ["--mode=evaluate", f"--workdir={directory}", f"--gold={gold}"]
    finished = launch(command, tmp_path)
    assert finished.status == 0, finished.err
    figures = dict(line.split("\t")[:2] for line in finished.out.decode().splitlines())
    assert float(figures["test/aer_diagonal"]) == 0
    assert 0 <= float(figures["test/aer"]) <= 100
    assert "test, alignments by threshold 0.2" in figures
    assert "aer" in read_parts(directory, "test")["intervals"]


def tiny_lines(trained, split):
    directory = Path(trained.config.data.source.removeprefix("tsv:"))
    return (directory / f"{split}.tsv").read_text().splitlines()
