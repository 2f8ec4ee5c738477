import csv
import io
import math
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny
from written_runs import WRONG, write_run

from bahdanau_jax.comparison import compare
from bahdanau_jax.comparison.compare import (
    is_on_front,
    make_comparison,
    verdict,
)
from bahdanau_jax.comparison.report import page
from bahdanau_jax.comparison.results import read_results, read_test_set
from bahdanau_jax.comparison.sample_alignments import (
    LONGEST,
    Attended,
    Sample,
    choose,
    sample_alignments,
)
from bahdanau_jax.comparison.tables import to_csv, to_markdown
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import metrics, significance
from bahdanau_jax.evaluation.breakdown import sentence_sums
from bahdanau_jax.evaluation.significance import Difference, Noise
from bahdanau_jax.sweeps import grid, sweep
from bahdanau_jax.workdir import metrics_log

TEST = 150  # sentences


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of three scores and three seeds, of which one cell failed and one isn't begun."""
    root = tmp_path_factory.mktemp("comparison")
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdef", k=chance.randint(1, 6))) for _ in range(TEST)]
    source = tiny.write_corpus(root / "corpus")
    lines = "".join(f"{word}\t{' '.join(word.upper())}\n" for word in words)
    (root / "corpus" / "test.tsv").write_text(lines)
    cells = grid.expand(tiny.config(source), [f"score={','.join(WRONG)}", "seed=0,1,2"])
    directory = root / "scores"
    directory.mkdir()
    sweep.list_cells(directory, cells, ["score=projected: model.attention.units 16 → 31"])
    for cell in cells[:-2]:
        write_run(directory / cell.name, cell, chance)
    sweep.write_failure(directory / cells[-2].name, 2, "launch.py: <no> memory")
    return directory


def silent(_):
    pass


@pytest.fixture(scope="module")
def made(swept):
    return make_comparison(swept, silent)


def test_runs_that_differ_in_seeds_are_one_configuration(swept):
    results = read_results(swept)
    assert [(c.label, len(c.runs)) for c in results.configurations] == [
        ("additive", 3),
        ("projected", 3),
        ("uniform", 1),
    ]
    assert [(m.name, m.why) for m in results.missing] == [
        ("score=uniform,seed=1", "failed: launch.py: <no> memory"),
        ("score=uniform,seed=2", "not begun"),
    ]


def test_what_failed_stands_at_the_top_of_table_and_page(made):
    text = to_markdown(made)
    assert text.startswith("**score=uniform,seed=1** failed: launch.py: <no> memory\n")
    whole = page(made, [])
    place = whole.index("score=uniform,seed=1")
    assert whole.index("2 of the sweep's cells are missing") < place < whole.index("<h2>")
    assert "&lt;no&gt; memory" in whole


def test_means_and_deviations_are_over_seeds(made, swept):
    results = [metrics_log.read_result(swept / f"score=additive,seed={s}") or {} for s in range(3)]
    rates = [result["test/wer"] for result in results]
    found = made.summaries["test/wer"]["additive"]
    assert found.mean == pytest.approx(np.mean(rates))
    assert found.deviation == pytest.approx(np.std(rates, ddof=1))
    (row,) = [x for x in to_markdown(made).splitlines() if x.startswith("| additive ")]
    assert f" {np.mean(rates):.2f} ± {np.std(rates, ddof=1):.2f} |" in row
    assert " | 3 | 1,000 | " in row


def test_each_pair_gets_a_sentence_and_noise_is_called_noise(made):
    better = [pair.sentence for pair in made.pairs["wer"]]
    assert re.match(
        r"additive is better than projected by 3\d\.\d WER; 95 % interval 2\d\.\d to "
        r"[45]\d\.\d; 3 seeds; a difference of 1\d\.\d would show \(power 80 %\)$",
        better[0],
    )
    assert "no difference beyond the noise" in better[2]
    assert "1 seed, so the noise between seeds isn't known" in better[2]
    for sentence in better:
        assert f"- {sentence}" in to_markdown(made).splitlines()


def test_pairs_are_compared_on_the_same_sentences(made):
    pair = made.pairs["wer"][0]
    assert pair.difference.low < pair.difference.value < pair.difference.high < 0
    assert pair.difference.noise.sources == ("sentences", "seeds")
    assert made.pairs["nll_per_token"][0].difference.noise.sources == ("sentences", "seeds")
    assert "the noise between sentences isn't known" not in made.pairs["nll_per_token"][0].sentence


def test_the_csv_has_a_line_for_every_cell(made):
    rows = list(csv.DictReader(io.StringIO(to_csv(made))))
    assert [row["cell"] for row in rows] == [
        f"score={score},seed={seed}" for score in WRONG for seed in range(3)
    ]
    assert {row["status"] for row in rows[:7]} == {"finished"}
    assert rows[7]["status"] == "failed: launch.py: <no> memory"
    assert rows[4]["model.attention.score"] == "projected" and rows[4]["seed"] == "1"
    assert float(rows[4]["test/wer"]) == made.results.configurations[1].runs[1].result["test/wer"]
    assert "test/note" not in rows[0] and rows[8]["test/wer"] == ""


def test_the_page_is_whole_and_loads_nothing(made):
    alignment = Attended(np.eye(2), ["a", "</s>"], ["<A>", "</s>"], "additive: <A>")
    whole = page(made, [Sample("a", "<A>", [alignment])])
    assert not re.search(r"""(?:src|href)\s*=|url\(|@import|<script|<link""", whole)
    assert "prefers-color-scheme: dark" in whole
    for part in (
        "c0ffee",
        "jax 0.0.1",
        "kind &lt;cpu&gt;",
        "data/train f00d",
        "model.attention.units 16 → 31",
        "Quality by source length",
        "Learning curves",
        "Pareto front",
        "additive: &lt;A&gt;",
        "python ",
    ):
        assert part in whole, part
    assert whole.count("<svg") == whole.count("</svg>") == 9
    assert "nan" not in whole.lower()


def test_the_same_runs_give_the_same_files(made, swept):
    again = make_comparison(swept, silent)
    assert to_csv(again) == to_csv(made)
    assert to_markdown(again) == to_markdown(made)
    assert page(again, []) == page(made, [])


def test_directories_of_runs_that_no_sweep_made_are_compared_by_their_fields(swept, tmp_path):
    for name in ("additive", "projected"):
        (tmp_path / name).symlink_to(swept / f"score={name},seed=0")
    results = read_results(tmp_path)
    assert [c.label for c in results.configurations] == ["additive", "projected"]


@pytest.mark.parametrize("name", ["sweep.json", "report.html", "notes/fifo"])
def test_what_leads_elsewhere_beside_the_cells_is_refused(swept, tmp_path, name):
    for path in swept.iterdir():
        if path.is_dir():
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(swept / "sweep.json", tmp_path)
    read_results(tmp_path)
    path = tmp_path / name
    path.unlink(missing_ok=True)
    if name == "notes/fifo":
        path.parent.mkdir()
        os.mkfifo(path)
    else:
        path.symlink_to(swept / "sweep.json")
    with pytest.raises(InputError, match=r"a link that leads out|neither a file nor a directory"):
        read_results(tmp_path)


def test_a_run_that_lost_its_configuration_is_told(swept, tmp_path):
    for name in ("additive", "projected"):
        shutil.copytree(swept / f"score={name},seed=0", tmp_path / name)
    (tmp_path / "projected" / "config.json").unlink()
    (missing,) = read_results(tmp_path).missing
    assert missing.name == "projected" and "no config.json here" in missing.why


def test_where_nothing_can_be_compared_it_is_said(swept, tmp_path):
    with pytest.raises(InputError, match="neither a sweep nor directories of runs"):
        read_results(tmp_path)
    cells = grid.expand(tiny.config("tsv:x"), ["seed=0,1"])
    sweep.list_cells(tmp_path, cells, [])
    with pytest.raises(InputError, match=r"no finished run here to compare; seed=0 not begun"):
        read_results(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"null"])
@pytest.mark.parametrize("name", ["result.json", "manifest.json", "config.json"])
def test_a_damaged_cell_stands_at_the_top_and_the_others_are_compared(
    swept, tmp_path, name, content
):
    for path in swept.iterdir():
        if path.is_dir():
            (tmp_path / path.name).symlink_to(path)
    shutil.copy(swept / "sweep.json", tmp_path)
    damaged = tmp_path / "score=additive,seed=0"
    damaged.unlink()
    shutil.copytree(swept / damaged.name, damaged)
    (damaged / name).write_bytes(content)
    results = read_results(tmp_path)
    assert sum(len(c.runs) for c in results.configurations) == 6
    (why,) = [m.why for m in results.missing if m.name == damaged.name]
    assert why.startswith("can't be compared: ") and name in why


@pytest.mark.parametrize("name", ["outputs/test.txt", "alignments/test.jsonl"])
def test_a_damaged_output_costs_what_is_made_of_it_and_no_more(swept, tmp_path, name):
    directory = tmp_path / "w"
    shutil.copytree(swept, directory)
    for cell in directory.glob("score=additive*"):
        (cell / name).parent.mkdir(exist_ok=True)
        (cell / name).write_bytes(b"\xff\n" * TEST)
    found = make_comparison(directory, silent)
    assert sum(len(c.runs) for c in found.results.configurations) == 7
    assert (found.test_set is None) == name.startswith("outputs")
    if found.test_set is not None:
        samples = sample_alignments(found.results.configurations, found.test_set)
        assert not any(a.title.startswith("additive") for s in samples for a in s.alignments)


def test_sentences_are_compared_only_where_they_are_the_same(swept):
    results = read_results(swept)
    run = results.configurations[0].runs[0]

    def changed(field, value):
        other = grid.with_values(run.config, {field: value})
        return results.configurations[0]._replace(runs=[run._replace(config=other)])

    both = [results.configurations[1], changed("data.lowercase", True)]
    with pytest.raises(InputError, match="tested on different data"):
        read_test_set(both, "test")
    with pytest.raises(InputError, match="gone is no directory"):
        read_test_set([changed("data.source", "tsv:gone")], "test")


@pytest.mark.parametrize("kind", ["error_rate", "bleu"])
def test_figures_from_sums_are_those_of_the_whole_text(kind):
    chance = random.Random(1)
    references = [
        [" ".join(chance.choices("abcd", k=chance.randint(4, 9))) for _ in range(1 + n % 2)]
        for n in range(40)
    ]
    texts = [r[0] if chance.random() < 0.5 else r[-1] + " d" for r in references]
    sums = sentence_sums(metrics.Scoring(kind), texts, references)
    if kind == "bleu":
        scores = metrics.text_scores(texts, references)
        assert sums["bleu"].figure() == pytest.approx(scores["bleu"].score)
        assert sums["chrf"].figure() == pytest.approx(scores["chrf"].score)
        part = metrics.text_scores(texts[:9], references[:9])["bleu"].score
        assert sums["bleu"].figure(range(9)) == pytest.approx(part)
    else:
        counts = metrics.error_counts(
            [x.split() for x in texts], [[r.split() for r in known] for known in references]
        )
        assert sums["wer"].figure() == pytest.approx(counts.wer)
        assert sums["per"].figure() == pytest.approx(counts.by_symbol)


def test_the_front_holds_what_nothing_beats_in_both():
    qualities, costs = [5, 4, 4, 3, 5], [9, 3, 4, 1, 9]
    front = [is_on_front(n, qualities, costs) for n in range(5)]
    assert front == [True, True, False, True, True]


def test_sentences_that_are_drawn_are_short_enough_and_in_order(made):
    test_set = made.test_set
    assert test_set is not None
    numbers = choose(test_set)
    assert numbers == sorted(set(numbers)) and len(numbers) == 3
    assert max(test_set.tokens[n] for n in numbers) == max(test_set.tokens) <= LONGEST


def test_many_configurations_are_compared_with_the_best_alone(made, monkeypatch):
    every = compare._pairs(made.results.configurations, "test", "wer", made.sums)
    monkeypatch.setattr(compare, "ALL_PAIRS", 2)
    pairs = compare._pairs(made.results.configurations, "test", "wer", made.sums)
    assert [(p.first, p.second) for p in pairs] == [
        ("additive", "projected"),
        ("additive", "uniform"),
    ]
    # The best is known from these figures alone, so that all pairs count in the adjustment.
    assert pairs == every[:2]
    assert Path(made.results.directory).name == "scores"


def differing(value, low, high, p=0.01, seeds=3):
    noise = Noise(0.1, (0.1, 0.1), (2, 2)) if seeds > 1 else Noise(0.1)
    return Difference(value, low, high, p, seeds, noise)


@pytest.mark.parametrize(
    ("difference", "adjusted", "higher", "said"),
    [
        (
            differing(-0.8, -1.4, -0.2),
            0.01,
            False,
            "additive is better than dot by 0.80 WER; 95 % interval 0.20 to 1.40; 3 seeds; a "
            "difference of 0.85 would show (power 80 %)",
        ),
        (
            differing(-0.8, -1.4, -0.2),
            0.01,
            True,
            "dot is better than additive by 0.80 WER; 95 % interval 0.20 to 1.40; 3 seeds; a "
            "difference of 0.85 would show (power 80 %)",
        ),
        (
            differing(12.34, 11.0, 13.68),
            0.001,
            False,
            "dot is better than additive by 12.3 WER; 95 % interval 11.0 to 13.7; 3 seeds; a "
            "difference of 0.85 would show (power 80 %)",
        ),
        (
            differing(0.8, -0.2, 1.8, 0.2),
            0.4,
            False,
            "additive and dot: no difference beyond the noise (0.80 WER; 95 % interval -0.20 to "
            "1.80; 3 seeds; a difference of 0.85 would show (power 80 %))",
        ),
    ],
)
def test_a_verdict_is_a_plain_sentence(difference, adjusted, higher, said):
    assert verdict("additive", "dot", difference, adjusted, "WER", higher, 0.85) == said


def test_a_pair_that_chance_may_have_found_is_not_called_better():
    said = verdict("additive", "dot", differing(-0.8, -1.5, -0.1, 0.03), 0.3, "WER", False, 0.85)
    assert said.startswith(
        "additive may be better than dot by 0.80 WER; 95 % interval 0.10 to 1.50"
    )
    said = verdict("a", "b", differing(-0.8, -1.5, -0.1, 0.03, seeds=1), 0.03, "WER", False, 0.85)
    assert "1 seed, so the noise between seeds isn't known" in said


def test_nothing_is_claimed_of_two_figures_alone():
    difference = significance.difference([4.0], [5.0])
    assert "say nothing of the noise" in verdict("a", "b", difference, math.nan, "WER", False, 0.85)


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-cmd", "'-cmd"),
        ("+x", "'+x"),
        ("\t=1", "'\t=1"),
        ("-0.5", "-0.5"),
        ("+1e3", "+1e3"),
        ("-inf", "-inf"),
        ("score=dot", "score=dot"),
        ("", ""),
    ],
)
def test_no_cell_of_the_csv_is_a_formula(cell, written, made):
    results = made.results._replace(missing=[(cell, "why")])
    lines = list(csv.reader(io.StringIO(to_csv(made._replace(results=results)))))
    assert lines[-1][0] == written
