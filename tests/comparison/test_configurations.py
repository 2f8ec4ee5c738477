import json
import math
import random

import pytest
import tiny
from scipy.stats import norm
from written_runs import write_run

from bahdanau_jax.comparison.compare import make_comparison
from bahdanau_jax.comparison.configurations import group, read_run
from bahdanau_jax.comparison.report import best, page
from bahdanau_jax.comparison.results import read_results
from bahdanau_jax.comparison.tables import spread, to_csv, to_markdown
from bahdanau_jax.evaluation.significance import summary
from bahdanau_jax.fields import Value, with_values
from bahdanau_jax.sweeps import grid, sweep
from bahdanau_jax.workdir.metrics_log import read_result, write_result


@pytest.fixture
def base(tmp_path):
    return tiny.config(tiny.write_corpus(tmp_path / "corpus"))


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "w"
    path.mkdir()
    return path


def add(directory, base, *sweeps):
    """Adds the finished cells of a sweep, as its command would; returns what it says."""
    cells = grid.expand(base, sweeps)
    said = sweep.list_cells(directory, cells, [])
    chance = random.Random(len(list(directory.iterdir())))
    for cell in cells:
        write_run(directory / cell.name, cell, chance)
    return said


def change_manifest(cell, **values):
    path = cell / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["starts"][-1] |= values
    path.write_text(json.dumps(manifest))


def rows(directory):
    return [(c.label, [run.name for run in c.runs]) for c in read_results(directory).configurations]


def compared(directory):
    said = []
    return make_comparison(directory, said.append), said


def test_another_base_in_the_same_place_gives_a_row_of_its_own(directory, base):
    assert add(directory, base, "seed=0,1") == []
    other = with_values(base, {"model.embedding": 8, "train.steps": 7, "seed": 5})
    (said,) = add(directory, other, "seed=7")
    assert "model.embedding is 8 and was 16; train.steps is 7 and was 60; compare gives" in said
    assert rows(directory) == [
        ("model.embedding=16, steps=60", ["seed=0", "seed=1"]),
        ("model.embedding=8, steps=7", ["seed=7"]),
    ]
    known = sweep.read_sweep(directory)
    assert said in known["notes"]
    assert [cell["base"] for cell in known["cells"]] == [0, 0, 1]
    assert [made["model"]["embedding"] for made in known["bases"]] == [16, 8]
    # The fields that the sweep sets aren't all that is said of a row that differs in others too.
    add(directory, other, "score=uniform")
    assert rows(directory)[-1][0].endswith("model.embedding=8, steps=7")


def test_a_base_with_another_seed_is_the_same_one(directory, base):
    add(directory, base, "seed=0,1")
    assert add(directory, with_values(base, {"seed": 3}), "data.seed=2") == []
    assert rows(directory) == [("all", ["seed=0", "seed=1", "data.seed=2"])]


def test_equal_configurations_are_one_run(directory, base):
    add(directory, base, "score=additive,uniform")
    add(directory, base, "score=additive,uniform", "seed=0,1")
    assert rows(directory) == [
        ("additive", ["score=additive", "score=additive,seed=1"]),
        ("uniform", ["score=uniform", "score=uniform,seed=1"]),
    ]
    comparison, said = compared(directory)
    assert "score=additive,seed=0 has the whole configuration of score=additive" in said[1]
    assert f"**Note** {comparison.warnings[0]}" in to_markdown(comparison)
    assert comparison.warnings[0] in page(comparison, [])
    lines = to_csv(comparison).splitlines()
    (again,) = [line for line in lines if line.startswith('"score=additive,seed=0"')]
    assert ",counted as score=additive," in again
    assert len(lines) == 1 + 6


def test_fields_without_an_effect_make_no_row(directory, base):
    add(directory, base, "score=uniform", "seed=0,1")
    wider = with_values(base, {"model.attention.units": 99, "follows": "luong_2015"})
    add(directory, wider, "score=uniform", "seed=2")
    assert [label for label, _ in rows(directory)] == ["all"]


def test_matched_sizes_are_in_a_name_only_where_it_needs_them(directory, base):
    cells = grid.expand(base, ["score=additive,uniform"])
    matched: dict[str, Value] = {"model.embedding": 31}
    cells[1] = grid.Cell(
        cells[1].name, cells[1].values, with_values(cells[1].config, matched), matched, base
    )
    sweep.list_cells(directory, cells, [])
    for cell in cells:
        write_run(directory / cell.name, cell, random.Random(0))
    assert [label for label, _ in rows(directory)] == ["additive", "uniform"]


def test_what_no_field_says_keeps_runs_apart(directory, base):
    add(directory, base, "seed=0..3")
    change_manifest(directory / "seed=1", init_from={"workdir": "runs/a", "step": 9})
    change_manifest(directory / "seed=2", step=30, changed={"train.learning_rate": [0.02, 0.5]})
    change_manifest(directory / "seed=3", fingerprints={"data/train": "other"})
    runs = [read_run(directory / f"seed={seed}", {}) for seed in range(4)]
    assert runs[2].config.train.learning_rate == 0.5  # and not what config.json began with
    labels = [configuration.label for configuration in group(runs)[0]]
    assert len(set(labels)) == 4
    assert "init_from=runs/a@9" in labels[1]
    assert "learning_rate=0.5" in labels[2] and "learning_rate until step 30=0.02" in labels[2]
    assert "data/train=other" in labels[3] and "data/test=none" in labels[3]


def test_runs_of_other_test_texts_are_neither_seeds_nor_paired(directory, base):
    add(directory, base, "seed=0,1")
    change_manifest(
        directory / "seed=1", fingerprints={"data/train": "f00d", "data/test": "0123456789abcdef"}
    )
    comparison, said = compared(directory)
    assert len(comparison.results.configurations) == 2
    assert comparison.test_set is None and comparison.sums == {}
    assert "isn't what seed=1 was tested on (fingerprint 0123456789abcdef then, " in said[-1]
    assert math.isnan(comparison.pairs["wer"][0].difference.p)
    assert "95 % interval" not in comparison.pairs["wer"][0].sentence


def test_a_text_that_has_changed_since_is_not_used(directory, base, tmp_path):
    add(directory, base, "score=additive,uniform")
    path = tmp_path / "corpus" / "test.tsv"
    path.write_text(path.read_text().replace("A", "B"))
    comparison, said = compared(directory)
    assert comparison.test_set is None
    assert "the text of test isn't what score=additive was tested on" in said[-1]


def test_outputs_that_do_not_add_up_to_the_result_are_not_used(directory, base):
    add(directory, base, "score=additive,uniform")
    assert compared(directory)[0].sums["score=uniform"]["wer"].figure() > 0
    path = directory / "score=uniform" / "outputs" / "test.txt"
    path.write_text("X\n" * tiny.TEST)
    comparison, said = compared(directory)
    assert comparison.test_set is None and comparison.sums == {}
    assert "outputs/test.txt of score=uniform gives wer 100.0000, and its result says" in said[-1]
    assert said[-1] in to_markdown(comparison)
    assert "the file there isn" in page(comparison, [])


def test_figures_that_were_computed_in_different_ways_are_not_compared(directory, base):
    add(directory, base, "score=additive,uniform")
    for cell, tokens in (("score=additive", "13a"), ("score=uniform", "zh")):
        result = read_result(directory / cell) or {}
        result |= {"test/per_signature": f"tok:{tokens}"}
        write_result(directory / cell, result)
    comparison, said = compared(directory)
    assert "test/per isn't compared" in said[-1]
    assert "per" not in comparison.pairs and "wer" in comparison.pairs
    per = comparison.summaries["test/per"]
    assert per and f'<td class="best">{per["additive"].mean:.2f}' not in page(comparison, [])


def test_the_smallest_difference_is_that_of_so_many_comparisons(directory, base):
    add(directory, base, "score=additive,projected,uniform")
    pairs = compared(directory)[0].pairs["wer"]
    assert len(pairs) == 3
    for pair in pairs:  # of one seed, with the significance divided by three (Bloom 1995)
        noise = pair.difference.noise.sentences
        assert noise
        z = norm.ppf(1 - 0.05 / 3 / 2) + norm.ppf(0.8)
        assert pair.smallest == pytest.approx(z * math.sqrt(noise), rel=1e-3)


def test_likelihoods_are_compared_over_the_sentences(directory, base):
    add(directory, base, "score=additive,uniform")
    comparison, _ = compared(directory)
    (pair,) = comparison.pairs["nll_per_token"]
    assert pair.difference.noise.sources == ("sentences",) and pair.difference.low < 0
    for cell in directory.glob("score=*"):  # as runs of earlier versions have none
        (cell / "evaluation" / "test-likelihood.tsv").unlink()
    (pair,) = compared(directory)[0].pairs["nll_per_token"]
    assert math.isnan(pair.difference.p) and compared(directory)[0].test_set is not None
    assert "no figures of the same sentences" in pair.sentence


@pytest.mark.parametrize("content", ["0.5\t1\n" * tiny.TEST, "0.5\t1\n", "0.5\n", "a\tb\n", "\n"])
def test_likelihoods_of_something_else_are_not_used(directory, base, content):
    add(directory, base, "score=additive,uniform")
    file = "evaluation/test-likelihood.tsv"
    (directory / "score=uniform" / file).write_text(content)
    comparison, said = compared(directory)
    assert comparison.test_set is None and comparison.sums == {}
    assert file in said[-1] and "score=uniform" in said[-1]


def test_likelihoods_by_different_tokens_are_not_compared(directory, base):
    add(directory, base, "score=additive")
    add(directory, with_values(base, {"data.vocabulary.target_kind": "words"}), "seed=1")
    comparison, said = compared(directory)
    assert "test/nll_per_token isn't compared: the runs' target vocabularies differ" in said
    assert "nll_per_token" not in comparison.pairs and "wer" in comparison.pairs
    losses = comparison.summaries["test/nll_per_token"]
    assert losses and all(
        f'<td class="best">{spread(s)}' not in page(comparison, []) for s in losses.values()
    )


def test_long_names_leave_room_for_the_chart(directory, base):
    add(directory, base, "seed=0")
    fields = {"model.embedding": 8, "train.steps": 7, "train.learning_rate": 0.5}
    add(directory, with_values(base, fields), "seed=7")
    whole = page(compared(directory)[0], [])  # Matplotlib warns where there is no room
    assert "<td>1: model.embedding=16, steps=60, learning_rate=0.02 − " in whole


@pytest.mark.parametrize(
    ("name", "figures", "labels"),
    [
        ("test/wer", {"a": [1.0], "b": [2.0], "c": [1.0]}, "ac"),
        ("test/bleu", {"a": [11.0], "b": [12.0], "c": [12.0 + 1e-9]}, "bc"),
        ("test/alignment_accuracy", {"a": [50.0], "b": [60.0]}, "b"),
        ("test/alignment_precision", {"a": [50.0], "b": [60.0]}, "b"),
        ("test/aer", {"a": [50.0], "b": [60.0]}, "a"),
        ("test/bleu_lowercase", {"a": [50.0], "b": [60.0]}, "b"),
        ("test/wer", {"a": [1.0, 3.0], "b": [2.0, 2.0]}, ""),
        ("test/wer", {"a": [1.0]}, ""),
        ("test/entropy", {"a": [1.0], "b": [2.0]}, ""),
        ("test/end_weight", {"a": [1.0], "b": [2.0]}, ""),
        ("test/unattended", {"a": [1.0], "b": [2.0]}, ""),
    ],
)
def test_all_of_the_best_are_bold_or_none_and_what_only_describes_never_is(name, figures, labels):
    summaries = {label: summary(values) for label, values in figures.items()}
    assert best(name, summaries) == set(labels)


def test_the_page_has_the_configuration_of_every_cell(directory, base):
    add(directory, base, "score=additive,uniform", "seed=0,1")
    whole = page(compared(directory)[0], [])
    assert "<th>model.attention.score</th><th>seed</th></tr>" in whole
    assert "<td>score=uniform,seed=1</td><td>uniform</td><td>1</td></tr>" in whole
    assert whole.count("<details>") == whole.count("&#34;half_width&#34;: 10") == 4


def test_the_verdict_covers_every_metric_of_the_split(directory, base):
    add(directory, base, "score=additive,uniform")
    for cell in ("score=additive", "score=uniform"):
        result = read_result(directory / cell) or {}
        write_result(directory / cell, result | {"test/aer": 20.0 + len(cell)})
    comparison, _ = compared(directory)
    text, whole = to_markdown(comparison), page(comparison, [])
    for name in ("WER", "PER", "exact match", "nats per token", "AER"):
        assert f"{name} of test:" in text
        assert f"<h3>{name} (" in whole
    assert "entropy of test" not in text
