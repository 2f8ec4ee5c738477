import json
import math
import shutil

import pytest
import tiny
from launching import tree_hash
from same_run import assert_same_run, quietly, result_of, steps_saved, without_speed

from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.training.record import LoopState
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.metrics_log import read_metrics


def test_a_workdir_holds_what_the_run_was_and_what_came_of_it(trained):
    names = {path.name for path in trained.directory.iterdir() if path.name != workdir.LOCK}
    assert names == {
        "alignments",
        "checkpoints",
        "config.json",
        "evaluation",
        "manifest.json",
        "metrics.jsonl",
        "outputs",
        "result.json",
        "tensorboard",
        "vocabulary",
    }
    assert workdir.read_config(trained.directory) == trained.config
    (start,) = json.loads((trained.directory / "manifest.json").read_text())["starts"]
    assert start["overrides"] == ["train.steps=60"]
    assert start["step"] == 0
    assert set(start["fingerprints"]) == {"data/train", "data/dev", "data/test", "vocabularies"}
    assert (start["changed"], start["init_from"]) == ({}, None)
    assert list((trained.directory / "tensorboard").iterdir())
    assert (trained.directory / "alignments" / "dev.png").read_bytes()[1:4] == b"PNG"


def test_metrics_come_at_their_steps(trained):
    lines = read_metrics(trained.directory)
    train_config = trained.config.train
    training = [line for line in lines if "train/loss" in line]
    every = train_config.log_every
    wanted = sorted({*range(every, train_config.steps + 1, every), train_config.steps})
    assert [line["step"] for line in training] == wanted
    for line in training:
        assert line["train/loss"] > line["train/nll_per_token"] > 0  # label smoothing
        assert line["train/gradient_norm"] > 0
        assert line["speed/target_tokens_per_second"] >= 0 or math.isnan(
            line["speed/target_tokens_per_second"]
        )
    evaluations = [line for line in lines if "dev/per" in line]
    every = train_config.eval_every
    assert [line["step"] for line in evaluations] == list(
        range(every, train_config.steps + 1, every)
    )
    assert {line["dev/sentences"] for line in evaluations} == {tiny.DEV}


def test_the_learning_rate_written_is_the_one_that_the_step_took(trained):
    # Linear growth over 5 steps, then half a cosine to zero at step 60; step n is taken with
    # the rate at n - 1.
    peak, warmup, steps = 2e-2, 5, 60
    for line in read_metrics(trained.directory):
        if "train/learning_rate" in line:
            n = line["step"] - 1 - warmup
            wanted = peak * (1 + math.cos(math.pi * n / (steps - warmup))) / 2
            assert line["train/learning_rate"] == pytest.approx(wanted, rel=1e-4)


def test_the_loss_falls(trained):
    losses = [x["train/loss"] for x in read_metrics(trained.directory) if "train/loss" in x]
    first, last = losses[0], losses[-1]
    assert first == pytest.approx(math.log(10), abs=0.4)  # ten entries, nearly uniform
    assert last < 0.75 * first
    dev = [x["dev/nll_per_token"] for x in read_metrics(trained.directory) if "dev/per" in x]
    assert dev[-1] < dev[0]


def test_the_best_checkpoint_is_that_of_the_best_evaluation(trained):
    by_step = {x["step"]: x["dev/per"] for x in read_metrics(trained.directory) if "dev/per" in x}
    best = min(by_step, key=lambda step: (by_step[step], step))
    assert steps_saved(trained.directory, "best") == [best]
    assert result_of(trained.directory)["step"] == best
    assert open_run(trained.directory, "best").step == best


def test_the_latest_checkpoints_end_with_the_last_step(trained):
    steps = steps_saved(trained.directory, "latest")
    assert len(steps) == 2
    assert steps[-1] == trained.config.train.steps
    assert open_run(trained.directory, "latest").step == steps[-1]
    assert open_run(trained.directory, steps[0]).step == steps[0]


def test_the_result_is_that_of_the_best_checkpoint_on_every_split(trained):
    result = result_of(trained.directory)
    (evaluation,) = [
        line
        for line in read_metrics(trained.directory)
        if line["step"] == result["step"] and "dev/per" in line
    ]
    for name, value in evaluation.items():
        if name.startswith("dev/"):
            assert result[name] == pytest.approx(value, rel=1e-6), name
    assert result["test/sentences"] == tiny.TEST
    assert {name.partition("/")[0] for name in result} == {
        "step",
        "parameters",
        "dev",
        "test",
    }


def test_figures_go_to_standard_output_and_all_else_to_standard_error(trained):
    lines = trained.out.splitlines()
    figures = dict(line.split("\t")[:2] for line in lines if line.startswith(("dev/", "test/")))
    result = result_of(trained.directory)
    assert set(figures) == {name for name in result if "/" in name}
    for name, shown in figures.items():
        assert float(shown) == pytest.approx(result[name], abs=1e-4)
    samples = lines[: trained.config.evaluation.samples]
    parts = [line for line in lines if line.startswith(("dev, ", "test, "))]
    assert len(lines) == len(samples) + len(figures) + len(parts)
    for sample in samples:
        source, output, reference = sample.split("\t")
        assert reference[0] == ("=" if output in reference[2:].split(" | ") else "≠")
        assert reference[2:].split(" | ")[0] == " ".join(source.upper())


def test_outputs_are_saved_one_a_line(trained):
    for split, count in (("dev", tiny.DEV), ("test", tiny.TEST)):
        text = (trained.directory / "outputs" / f"{split}.txt").read_text()
        assert text.count("\n") == count == len(text.splitlines())


def test_it_says_what_it_does_and_what_it_leaves_out(trained, tmp_path, monkeypatch):
    said = trained.err
    assert f"reading {trained.config.data.source}" in said
    # Said by whoever reads the text first; an unchanged text isn't read again.
    lines = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fresh = tiny.config(tiny.write_corpus(tmp_path / "fresh"))
    open_data(fresh.data, None, lines.append).training_store(lines.append)
    assert f"left out for an empty side: {tiny.EMPTY} training pair" in lines
    assert f"{tiny.PAIRS} training pairs" in said
    left_out = f"left out, for data.max_length={tiny.MAX_LENGTH}: {tiny.LONGER} longer pairs"
    assert left_out in said
    for part in ("vocabularies", "compiling", "step 1/60", "best so far", "result.json"):
        assert part in said


class Interruption(BaseException):
    """Not an Exception, as KeyboardInterrupt."""


def interrupted_at(monkeypatch, step):
    original = Batcher.batch

    def batch(self, k):
        if k == step:
            raise Interruption
        return original(self, k)

    monkeypatch.setattr(Batcher, "batch", batch)


def test_an_interrupted_run_goes_on_as_if_nothing_had_been(trained, tmp_path, monkeypatch):
    config, directory = trained.config, tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupted_at(patch, 33)
        with pytest.raises(Interruption):
            quietly(config, directory)
    # Saved at 27; 28 to 33 were computed, and 28 written, but are lost: they come again.
    assert steps_saved(directory, "latest")[-1] == 27
    assert not (directory / "result.json").exists()
    assert [x["step"] for x in read_metrics(directory)][-1] == 28
    with monkeypatch.context() as patch:
        interrupted_at(patch, 40)
        with pytest.raises(Interruption):
            quietly(config, directory)
    assert "resuming from step 40" in quietly(config, directory)

    assert_same_run(directory, trained.directory)
    starts = json.loads((directory / "manifest.json").read_text())["starts"]
    assert [start["step"] for start in starts] == [0, 27, 40]


def test_a_finished_run_that_is_started_again_trains_no_further(trained, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(trained.directory, directory)
    said = quietly(trained.config, directory)
    assert "resuming from step 60" in said
    assert "compiling" not in said
    assert without_speed(directory) == without_speed(trained.directory)
    assert result_of(directory) == result_of(trained.directory)
    for kind in ("latest", "best"):
        assert steps_saved(directory, kind) == steps_saved(trained.directory, kind)


def test_patience_ends_a_run_that_gets_no_better(trained, tmp_path, monkeypatch):
    config = tiny.config(trained.config.data.source)
    config.train.eval_every, config.train.patience = 5, 2
    evaluate = Evaluator.evaluate
    monkeypatch.setattr(
        Evaluator,
        "evaluate",
        lambda *args: (evaluate(*args)[0] | {"per": 50.0}, evaluate(*args)[1]),
    )
    said = quietly(config, tmp_path)
    assert "no better per in 2 evaluations: stopped at 15" in said
    assert [x["step"] for x in read_metrics(tmp_path) if "dev/per" in x] == [5, 10, 15]
    assert steps_saved(tmp_path, "best") == [5]
    assert steps_saved(tmp_path, "latest")[-1] == 15
    assert result_of(tmp_path)["step"] == 5


@pytest.mark.slow
def test_a_plateau_lowers_the_rate_also_across_an_interruption(trained, tmp_path, monkeypatch):
    config = tiny.config(trained.config.data.source)
    train = config.train
    train.schedule, train.warmup_steps, train.learning_rate = "plateau", 0, 0.02
    train.eval_every, train.log_every, train.checkpoint_every = 10, 5, 9
    train.decay_patience, train.decay_factor = 0, 0.5
    evaluate = Evaluator.evaluate
    monkeypatch.setattr(
        Evaluator,
        "evaluate",
        lambda *args: (evaluate(*args)[0] | {"per": 50.0}, evaluate(*args)[1]),
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert "the learning rate is 0.5 of its schedule's" in quietly(config, whole)
    rates = {
        line["step"]: line["train/learning_rate"]
        for line in read_metrics(whole)
        if "train/learning_rate" in line
    }
    # The first evaluation, after 10 steps, is the best; each one after it halves the rate.
    for step, rate in rates.items():
        halvings = max((step - 1) // 10 - 1, 0)
        assert rate == pytest.approx(0.02 * 0.5**halvings), step

    with monkeypatch.context() as patch:
        interrupted_at(patch, 33)
        with pytest.raises(Interruption):
            quietly(config, parts)
    assert "resuming from step 27" in quietly(config, parts)
    assert_same_run(parts, whole)


@pytest.mark.parametrize(
    ("higher", "values", "better"),
    [
        (False, [3.0, 2.0, 2.0, 2.5, 1.0], [True, True, False, False, True]),
        (True, [3.0, 2.0, 3.0, 3.5, 1.0], [True, False, False, True, False]),
    ],
)
def test_an_evaluation_is_the_best_if_none_before_was_as_good(higher, values, better):
    loop = LoopState()
    assert [loop.judge(v, 10 * n, higher) for n, v in enumerate(values, 1)] == better
    last = max(n for n, good in enumerate(better) if good)
    assert (loop.best, loop.best_step) == (values[last], 10 * (last + 1))
    assert loop.without_better == len(values) - 1 - last
    assert loop.evaluated == 10 * len(values)


def test_another_configuration_is_refused_and_the_run_stays_as_it_was(trained, tmp_path):
    config = tiny.config(trained.config.data.source)
    config.model.attention.units += 1
    before = tree_hash(trained.directory)
    with pytest.raises(InputError, match=r"model\.attention\.units is 16 there and 17 now"):
        train(config, trained.directory, [])
    assert tree_hash(trained.directory) == before


def test_a_run_that_another_process_trains_is_refused(trained, tmp_path):
    with (
        workdir.lock(tmp_path),
        pytest.raises(InputError, match="another process trains here"),
    ):
        train(trained.config, tmp_path, [])
    assert {path.name for path in tmp_path.iterdir()} == {workdir.LOCK}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c, d: (d / "dev.tsv").unlink(), "no development split"),
        (lambda c, d: (d / "train.tsv").write_text("a\t\n\tb\n"), "no pair with text"),
        (lambda c, d: setattr(c.data, "max_length", 1), "data.max_length is 1"),
        (lambda c, d: setattr(c.train, "batch_tokens", 3), "train.batch_tokens is 3"),
        (lambda c, d: (d / "dev.tsv").write_text("no tab\n"), "line 1: no tab"),
        (lambda c, d: (d / "dev.tsv").write_text(""), "split dev is empty"),
        (lambda c, d: (d / "test.tsv").write_bytes(b"a\tA\n\xff\tB\n"), "line 2: not UTF-8"),
        (
            lambda c, d: (
                setattr(c.data.vocabulary, "kind", "bpe")
                or setattr(c.data.vocabulary, "size", 8000)
            ),
            "source vocabulary",
        ),
    ],
)
def test_data_that_cannot_be_used_does_not_claim_the_workdir(spoil, message, tmp_path):
    source = tiny.write_corpus(tmp_path / "corpus")
    (tmp_path / "corpus" / "train.tsv").write_text("abcdef\tA B C D E F\n" * 20)
    config = tiny.config(source)
    spoil(config, tmp_path / "corpus")
    with pytest.raises(InputError, match=message):
        quietly(config, tmp_path / "run")
    # So that the same command works once what was wrong is put right.
    left = {path.name for path in (tmp_path / "run").iterdir()} - {workdir.LOCK}
    assert left == set()
