import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tiny
from launching import tree_hash

from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.signals import Stopped
from bahdanau_jax.sweeps import grid, sweep, tuning, tuning_record
from bahdanau_jax.sweeps.search_space import parse_space
from bahdanau_jax.sweeps.tuning import Trial, Tuning, tune
from bahdanau_jax.workdir import directory as workdir

optuna = pytest.importorskip("optuna")

# What stands in for launch.py: WER is lowest where the learning rate is 0.01; it improves with
# every evaluation. A rate above 0.5 fails.
TRAINER = """
import json, math, os, sys, time
flags = dict(a.lstrip("-").split("=", 1) for a in sys.argv[1:])
rate, place = float(flags["config.train.learning_rate"]), flags["workdir"]
pause = float(flags.get("pause", 0))
os.makedirs(place, exist_ok=True)
if rate > 0.5:
    sys.exit("launch.py: the rate is too high")
wer = 20 + 10 * abs(math.log10(rate / 0.01))
with open(os.path.join(place, "metrics.jsonl"), "a") as lines:
    for step in (1, 2, 3, 4):
        lines.write(json.dumps({"step": step, "dev/wer": wer + 4 - step}) + "\\n")
        lines.flush()
        time.sleep(pause if wer > 29 else 0)
with open(os.path.join(place, "result.json"), "w") as result:
    result.write("{}")
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tuning, "LOOK", 0.02)


def command(*flags):
    return [sys.executable, "-S", "-c", TRAINER, *flags]


def what(trials, low=1e-4, high=0.1, metric="dev/wer", higher=False):
    space = parse_space([f"learning_rate={low}..{high}:log"])
    return Tuning(tiny.config("tsv:x"), space, metric, higher, trials)


def test_trials_get_better_than_chance_and_the_best_comes_first(tmp_path):
    said = []
    trials = tune(tmp_path / "w", what(14), command(), said.append)
    assert len(trials) == 14
    complete = [trial for trial in trials if trial.state == "complete"]
    assert [t.value for t in complete] == sorted(t.value for t in complete)
    # The best value of each trial is its last, which is 20 at the best rate.
    assert 20 <= complete[0].value < 23
    for trial in complete:
        rate = float(trial.name.removeprefix("learning_rate="))
        assert trial.value == pytest.approx(20 + 10 * abs(math.log10(rate / 0.01)))
    assert any("begins" in line for line in said)
    # It is a sweep to those who read it.
    names = {entry["name"] for entry in sweep.read_sweep(tmp_path / "w")["cells"]}
    assert names == {trial.name for trial in trials}


def test_more_trials_go_on_where_the_last_ended(tmp_path):
    first = tune(tmp_path, what(3), command(), lambda _: None)
    assert tune(tmp_path, what(3), command(), lambda _: None) == first
    more = tune(tmp_path, what(5), command(), lambda _: None)
    assert len(more) == 5 and set(first) <= set(more)


def test_hopeless_trials_are_stopped_early(tmp_path):
    # Bad trials would take 40 s each; they come after enough good ones to know.
    tune(tmp_path, what(6, 5e-3, 2e-2), command("--pause=10"), lambda _: None)
    # Other ranges in the same place are refused but where nothing says which were there.
    (tmp_path / tuning_record.RECORD).unlink()
    said = []
    began = time.monotonic()
    trials = tune(tmp_path, what(8, 1e-4, 2e-4), command("--pause=10"), said.append)
    assert {t.state for t in trials} == {"complete", "pruned"}
    # One of the good ones may have been stopped too, behind its fellows when it was looked at.
    assert [t.state for t in trials[6:]] == ["pruned"] * 2
    assert time.monotonic() - began < 60  # of 80
    assert sum("hopeless" in line for line in said) == 2


def test_a_trial_that_fails_is_named_and_stops_no_other(tmp_path):
    said = []
    trials = tune(tmp_path, what(3, 0.6, 0.9), command(), said.append)
    assert [t.state for t in trials] == ["fail"] * 3
    assert sum("FAILED: launch.py: the rate is too high" in line for line in said) == 3
    assert "| fail |" in tuning.table(trials, "dev/wer")


def test_a_metric_that_is_not_there_is_a_failure_that_names_those_that_are(tmp_path):
    said = []
    (trial,) = tune(tmp_path, what(1, metric="dev/bleu"), command(), said.append)
    assert trial.state == "fail"
    assert "there is no dev/bleu in its metrics.jsonl, but dev/wer, step" in said[-1]


def test_a_cell_that_cannot_be_run_is_a_failed_trial(tmp_path):
    space = parse_space(["label_smoothing=1.5..1.9"])
    said = []
    (trial,) = tune(tmp_path, what(1)._replace(space=space), command(), said.append)
    assert trial.state == "fail" and "train.label_smoothing must be" in said[-1]


def of_choices(text):
    return what(2)._replace(space=parse_space([text]))


def _other_searches():
    base = tiny.config("tsv:x")
    base.seed, base.train.batch_size = 3, 8
    return [
        (what(2)._replace(base=base), r"seed is 3 and was 0.*batch_size is 8 and was 16"),
        (what(2, metric="dev/per"), "the metric is dev/per and was dev/wer"),
        (what(2, higher=True), "the direction is maximize and was minimize"),
        (what(2, low=1e-3), r"learning_rate is 0\.001\.\.0\.1:log and was 0\.0001\.\.0\.1:log"),
        (of_choices("learning_rate=0.01,0.02"), r"learning_rate is 0\.01,0\.02 and was 0\.0001"),
        (
            of_choices("seed=0..9"),
            r"learning_rate is not tuned.*seed is 0\.\.9 and was not",
        ),
    ]


@pytest.mark.parametrize(("other", "words"), _other_searches())
def test_another_search_in_the_same_place_is_refused_by_name_and_writes_nothing(
    other, words, tmp_path
):
    tune(tmp_path, what(1), command(), lambda _: None)
    before = tree_hash(tmp_path)
    with pytest.raises(InputError, match=f"trials of another search: .*{words}"):
        tune(tmp_path, other, command(), lambda _: None)
    assert tree_hash(tmp_path) == before


def test_a_journal_without_a_record_goes_on_if_it_can_be_of_the_same_search(tmp_path):
    first = of_choices("learning_rate=0.01,0.02")
    tune(tmp_path, first._replace(trials=1), command(), lambda _: None)
    for other, words in [
        (of_choices("seed=0..9"), r"is of train\.learning_rate; tune the same fields"),
        (of_choices("learning_rate=0.01,0.03"), r"has other values of train\.learning_rate"),
        (what(2), r"has other values of train\.learning_rate"),
        (first._replace(higher_is_better=True), "is of a metric to minimize"),
    ]:
        (tmp_path / tuning_record.RECORD).unlink(missing_ok=True)
        with pytest.raises(InputError, match=words):
            tune(tmp_path, other, command(), lambda _: None)
    assert len(tune(tmp_path, first, command(), lambda _: None)) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"base": {"seed": "x"}}', "[" * 100_000])
def test_a_damaged_record_is_one_line(text, tmp_path):
    (tmp_path / tuning_record.RECORD).write_text(text)
    with pytest.raises(InputError):
        tune(tmp_path, what(1), command(), lambda _: None)
    assert not (tmp_path / tuning.JOURNAL).exists()


def test_a_cell_that_another_process_trains_is_waited_for(tmp_path):
    """Somebody trains by hand what the tuner draws; the trial then has that run's value."""
    tuned = of_choices("learning_rate=0.01")._replace(trials=1)
    place = tmp_path / grid.cell(tuned.base, {"train.learning_rate": 0.01}, list(tuned.space)).name
    said, code = [], command("--config.train.learning_rate=0.01", f"--workdir={place}")

    def waits(line):
        said.append(line)
        if "waiting for" in line:
            subprocess.run(code, check=True)
            stack.close()

    with contextlib.ExitStack() as stack:
        stack.enter_context(workdir.lock(place))
        (trial,) = tune(tmp_path, tuned, command(), waits)
    assert trial.state == "complete"
    assert sum("waiting for the process" in line for line in said) == 1
    assert not (place / sweep.FAILED).exists()


def test_a_cell_that_another_process_took_first_has_not_failed(tmp_path, monkeypatch):
    """It takes it between the look at the lock and the start of the trial's process."""
    tuned = of_choices("learning_rate=0.9")._replace(trials=1)
    train, stack, calls = tuning._train, contextlib.ExitStack(), []

    def taken(trial, made, directory, *others):
        if not calls:
            stack.enter_context(workdir.lock(directory / made.name))
        calls.append(train(trial, made, directory, *others))
        return calls[-1]

    def waits(line):
        if "waiting for" in line:
            (place,) = tmp_path.glob("learning_rate=*")
            assert not (place / sweep.FAILED).exists()
            stack.close()

    monkeypatch.setattr(tuning, "_train", taken)
    (trial,) = tune(tmp_path, tuned, command(), waits)
    assert len(calls) == 2
    assert trial.state == "fail"  # as nobody was there the second time


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("when", ["trains", "waits"])
@pytest.mark.usefixtures("signals_are_heard")
def test_a_signal_ends_a_tuner_whose_trial_is_taken_up_again(tmp_path, number, when):
    tuned = of_choices("learning_rate=0.0001")._replace(trials=1)
    place, process = tmp_path / "learning_rate=0.0001", os.getpid()

    def end():
        while when == "trains" and not (place / "metrics.jsonl").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(process, number)

    thread = threading.Thread(target=end)
    with contextlib.ExitStack() as stack, pytest.raises(Stopped) as caught:
        if when == "waits":
            stack.enter_context(workdir.lock(place))
        thread.start()
        tune(tmp_path, tuned, command("--pause=20"), lambda _: None)
    thread.join()
    assert caught.value.status == 128 + number
    assert not (place / sweep.FAILED).exists() and not (place / "result.json").exists()
    (trial,) = tune(tmp_path, tuned, command(), lambda _: None)
    assert (trial.name, trial.state) == (place.name, "complete")


def test_several_tuners_share_the_trials(tmp_path):
    results = []

    def work():
        results.append(tune(tmp_path, what(8), command(), lambda _: None))

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # The one that ended last saw all of them; each was run once, and none failed.
    trials = max(results, key=len)
    assert len(trials) == len({t.name for t in trials}) == 8
    assert {t.state for t in trials} <= {"complete", "pruned"}


TUNER = """
import sys
sys.path[:0] = {paths!r}
import test_tuning
from bahdanau_jax.sweeps import tuning
tuning.tune(__import__("pathlib").Path({place!r}), test_tuning.what(2, 1e-4, 2e-4),
            test_tuning.command("--pause=30"), print)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the parent's death is seen on Linux only")
def test_a_trial_whose_tuner_was_killed_is_taken_up_again(tmp_path):
    place, tests = tmp_path / "w", Path(__file__).parents[1]
    paths = [str(path) for path in (tests.parent, tests / "support", tests / "sweeps")]
    code = TUNER.format(paths=paths, place=str(place))
    tuner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    while not list(place.glob("learning_rate=*/metrics.jsonl")):
        time.sleep(0.05)
        assert tuner.poll() is None
    os.kill(tuner.pid, signal.SIGKILL)
    tuner.wait()
    (begun,) = [path.parent.name for path in place.glob("learning_rate=*/metrics.jsonl")]
    trials = tune(place, what(2, 1e-4, 2e-4), command(), lambda _: None)
    assert len(trials) == 2
    assert {t.state for t in trials} == {"complete"}
    assert begun in {t.name for t in trials}


def test_the_metric_is_the_one_that_chooses_checkpoints_unless_given():
    config = tiny.config("tsv:x")
    assert tuning.metric_of(None, config) == "dev/per"
    assert tuning.metric_of("dev/wer", config) == "dev/wer"
    with pytest.raises(InputError, match="as dev/wer; it is 'wer'"):
        tuning.metric_of("wer", config)
    assert tuning.metric_of("dev/alignment_accuracy", config) == "dev/alignment_accuracy"
    for name in ("dev/entropy", "dev/unattended", "speed/target_tokens_per_second"):
        with pytest.raises(InputError, match=f"{name}: neither more nor less of it is better"):
            tuning.metric_of(name, config)


@pytest.mark.parametrize("metric", ["dev/nll_per_token", "dev/perplexity"])
def test_likelihoods_by_token_do_not_choose_what_a_token_is(metric):
    config = tiny.config("tsv:x")
    assert tuning.metric_of(metric, config, ["train.learning_rate"]) == metric
    for path in ("data.vocabulary.size", "data.vocabulary.target_kind", "data.lowercase"):
        with pytest.raises(InputError, match=f"the trials' tokens differ by {path}; tune by"):
            tuning.metric_of(metric, config, ["train.learning_rate", path])
        assert tuning.metric_of("dev/wer", config, [path]) == "dev/wer"


def test_without_optuna_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r'pip install "bahdanau_jax\[tune\]"'):
        tune(tmp_path, what(1), command(), print)


def test_the_table_has_the_best_first():
    trials = [Trial("a", "complete", 20.5), Trial("b", "pruned", math.nan)]
    assert tuning.table(trials, "dev/wer").splitlines()[2:] == [
        "| a | 20.5 | complete |",
        "| b |  | pruned |",
    ]


@pytest.mark.parametrize("damage", ["{", "[]\n", '{"op_code": 99}\n', "[" * 99_999 + "\n", "\0\n"])
def test_a_damaged_journal_is_refused_in_one_line(damage, tmp_path):
    tune(tmp_path, what(1), command(), lambda _: None)
    journal = tmp_path / tuning.JOURNAL
    first, *others = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([first, damage + "\n" * (damage == "{"), *others]))
    with pytest.raises(InputError, match="bring back a copy"):
        tune(tmp_path, what(2), command(), lambda _: None)
