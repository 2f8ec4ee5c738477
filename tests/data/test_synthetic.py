import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import datasets
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets import synthetic
from bahdanau_jax.data.datasets.synthetic import CopyInsert, Reverse
from bahdanau_jax.data.datasets.text_builder import TextBuilder
from bahdanau_jax.data.pipeline import open_data

ROOT = Path(__file__).parents[2]
TASKS = (Reverse, CopyInsert)
SOURCES = st.lists(st.sampled_from(synthetic.LETTERS), min_size=1, max_size=40).map(" ".join)


def test_reverse_by_hand():
    assert Reverse.target("d o g") == "g o d"
    assert Reverse.alignment("d o g") == [2, 1, 0]


def test_copy_insert_by_hand():
    # h and q are silent, a and u are vowels.
    assert CopyInsert.target("b h a q u t") == "b + a + u t"
    assert CopyInsert.alignment("b h a q u t") == [0, 2, 2, 4, 4, 5]
    assert CopyInsert.target("h q") == ""


@given(SOURCES)
def test_what_is_copied_is_what_the_alignment_points_to(source):
    letters = source.split()
    for task in TASKS:
        target, alignment = task.target(source).split(), task.alignment(source)
        assert len(target) == len(alignment)
        for symbol, place in zip(target, alignment, strict=True):
            expected = letters[place]
            assert symbol == expected or (
                symbol == synthetic.MARKER and expected in synthetic.VOWELS and task is CopyInsert
            )


@given(SOURCES)
def test_reversing_twice_changes_nothing(source):
    assert Reverse.target(Reverse.target(source)) == source
    assert sorted(Reverse.alignment(source)) == list(range(len(source.split())))


@given(SOURCES)
def test_a_copy_goes_from_left_to_right_and_leaves_out_the_silent_letters_alone(source):
    alignment = CopyInsert.alignment(source)
    assert alignment == sorted(alignment)
    missing = set(range(len(source.split()))) - set(alignment)
    assert all(source.split()[place] in synthetic.SILENT for place in missing)


def test_the_classes_of_letters_are_apart_and_the_marker_is_no_letter():
    assert not set(synthetic.VOWELS) & set(synthetic.SILENT)
    assert set(synthetic.VOWELS + synthetic.SILENT) < set(synthetic.LETTERS)
    assert synthetic.MARKER not in synthetic.LETTERS


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(synthetic.Synthetic, "SIZES", {"train": 400, "validation": 60, "test": 80})


def pairs(task, directory):
    return Corpus(DataConfig(f"tfds:{task.name}", "source", "target", str(directory)))


@pytest.mark.parametrize("task", TASKS)
def test_it_is_prepared_on_first_use_with_targets_by_the_rule(task, tmp_path, small, capsys):
    assert any(builder is task for builder in datasets.BUILDERS)
    corpus = pairs(task, tmp_path)
    assert capsys.readouterr().out == ""
    for split, size in (("train", 400), ("dev", 60), ("test", 80)):
        examples = list(corpus.examples(split))
        assert len(examples) == size
        assert all(e.references == (task.target(e.source),) for e in examples)
        assert all(e.references[0] for e in examples)


@pytest.mark.parametrize("task", TASKS)
def test_evaluation_knows_the_alignment_where_symbols_are_the_tokens(task, tmp_path, small):
    config = DataConfig(f"tfds:{task.name}", "source", "target", str(tmp_path))
    for kind, known in (("symbols", True), ("characters", False)):
        config.vocabulary.kind = kind
        split = open_data(config, None, lambda _: None).evaluation_split("dev")
        alignments = [task.alignment(example.source) for example in split.examples]
        assert split.alignments == (alignments if known else None)


def test_writing_fast_changes_nothing_in_the_records(tmp_path, small, monkeypatch):
    fast = pairs(CopyInsert, tmp_path / "fast")
    monkeypatch.delattr(TextBuilder, "_download_and_prepare")
    plain = pairs(CopyInsert, tmp_path / "plain")
    for split in ("train", "dev", "test"):
        assert list(fast.examples(split)) == list(plain.examples(split))


@pytest.mark.parametrize("task", TASKS)
def test_no_source_occurs_twice_and_every_length_is_in_every_split(task):
    sizes = task.SIZES
    sources = task.sources(sum(sizes.values()))
    assert len(set(sources)) == len(sources)
    start = 0
    for size in sizes.values():
        lengths = [len(source.split()) for source in sources[start : start + size]]
        start += size
        assert set(range(3, 41)) <= set(lengths) <= set(range(1, 41))
        # Of the longer sources, one of 31 has each length, within four standard deviations.
        longer = [length for length in lengths if length >= 10]
        expected = len(longer) / 31
        assert abs(longer.count(40) - expected) < 4 * expected**0.5
    letters = [letter for source in sources for letter in source.split()]
    for letter in synthetic.LETTERS:
        assert abs(letters.count(letter) / len(letters) - 1 / 26) < 0.002


def test_sources_are_the_same_in_every_process_and_whatever_else_draws():
    random.seed(1)
    here = Reverse.sources(50)
    program = (
        "import random; random.seed(2); "
        "from bahdanau_jax.data.datasets.synthetic import Reverse; "
        "print('|'.join(Reverse.sources(50)))"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip().split("|") == here


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_attention_learns_the_task_with_its_alignment_and_one_vector_does_not(task, tmp_path):
    # The tests' own flags for XLA make compilation fast and training slow.
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    program = [sys.executable, str(ROOT / "benchmarks" / "length_curve.py")]
    arguments = [f"--task={task.name}", f"--workdir={tmp_path}", f"--picture={tmp_path}/x.png"]
    subprocess.run([*program, *arguments], env=environment, check=True, timeout=1800)
    assert (tmp_path / "x.png").stat().st_size > 0
    figures = json.loads((tmp_path / "length_curve.json").read_text())
    additive, fixed = figures["additive"], figures["fixed"]
    assert additive["exact_match"] >= 99
    assert additive["alignment_accuracy"] >= 95
    assert additive["by_length"][-1]["high"] == fixed["by_length"][-1]["high"] == 40
    assert additive["by_length"][-1]["exact_match"] >= 95
    assert fixed["by_length"][-1]["exact_match"] <= 5
