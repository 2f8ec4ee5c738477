"""A run that lost a file, or got another run's: it is told, and nothing is overwritten."""

import json
import shutil

import pytest
import tiny
from launching import tree_hash
from same_run import RESULT_OWN, quietly, steps_saved, without_speed

from bahdanau_jax import durable
from bahdanau_jax.comparison.results import read_results
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.training.saving import Saver
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir import history, manifest
from bahdanau_jax.workdir.metrics_log import MetricsWriter, to_json


@pytest.fixture(scope="module")
def other(corpus, tmp_path_factory):
    """A run of another seed."""
    config = tiny.config(corpus)
    config.seed = 3
    directory = tmp_path_factory.mktemp("other") / "run"
    quietly(config, directory)
    return directory


@pytest.fixture
def run(trained, tmp_path):
    """A finished run to be spoilt."""
    shutil.copytree(trained.directory, tmp_path / "sweep" / "run")
    return tmp_path / "sweep" / "run"


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def take(run, other, name):
    remove(run / name)
    copy = shutil.copytree if (other / name).is_dir() else shutil.copy
    copy(other / name, run / name)


def assert_refused(config, run, words):
    before = tree_hash(run)
    with pytest.raises(InputError, match=words):
        quietly(config, run)
    assert tree_hash(run) == before


def test_checkpoints_that_are_gone_are_told(trained, run):
    remove(run / "checkpoints")
    metrics = (run / "metrics.jsonl").read_bytes()
    assert_refused(trained.config, run, r"checkpoints are gone, although result\.json is there")
    remove(run / "result.json")
    assert_refused(trained.config, run, r"although manifest\.json says that there was one; bring")
    starts = manifest.read_starts(run)
    assert [start.pop("saved") for start in starts] == [9]
    write_atomically(run / "manifest.json", to_json({"starts": starts}))  # of an older version
    assert_refused(trained.config, run, r"although metrics\.jsonl comes to step 60; bring it back")
    assert (run / "metrics.jsonl").read_bytes() == metrics


def test_a_run_that_lost_its_first_checkpoint_is_told(trained, tmp_path, monkeypatch):
    calls = iter(range(99))

    def stop_at_the_second(*_):
        if next(calls):
            raise RunError("the end")

    monkeypatch.setattr(Saver, "_settle", stop_at_the_second)
    with pytest.raises(RunError, match="the end"):
        quietly(trained.config, tmp_path / "run")
    assert steps_saved(tmp_path / "run", "latest") == [9]
    monkeypatch.undo()
    remove(tmp_path / "run" / "checkpoints")
    assert_refused(trained.config, tmp_path / "run", r"although manifest\.json says that there was")


def test_a_run_that_lost_its_best_checkpoint_is_told(trained, run, caplog):
    best = steps_saved(run, "best")[0]
    latest = steps_saved(run, "latest")[-1]
    remove(run / "checkpoints" / "best")
    for path in (run / "checkpoints" / "latest").glob(f"*{best}"):
        remove(path)  # its twin
    assert (open_run(run).step != best) and steps_saved(run, "latest")
    assert f"the best checkpoint, of step {best}, is gone" in caplog.text
    if best != latest:
        assert_refused(trained.config, run, f"its best checkpoint, of step {best}, is gone")


def test_the_figures_of_a_best_checkpoint_that_is_damaged_stay(trained, run):
    best, latest = steps_saved(run, "best")[0], steps_saved(run, "latest")[-1]
    assert best != latest
    for path in run.glob(f"checkpoints/*/*{best}/*/*"):
        if path.is_file():
            path.write_bytes(b"damaged")
    result = (run / "result.json").read_bytes()
    with pytest.raises(RunError, match=rf"of step {best}, is damaged.*--checkpoint={latest}$"):
        quietly(trained.config, run)
    assert (run / "result.json").read_bytes() == result
    # A result that isn't the best one's may be replaced.
    values = json.loads(result) | {"step": latest}
    (run / "result.json").write_text(to_json({k: x for k, x in values.items() if k != "checksum"}))
    quietly(trained.config, run)
    assert json.loads((run / "result.json").read_bytes())["step"] == latest


def test_a_run_that_was_killed_before_its_first_save_has_lost_nothing(tmp_path):
    history.check_checkpoints(tmp_path, 9)
    with MetricsWriter(tmp_path, mirror=False) as writer:
        writer.write(36, {"train/loss": 1.0})
        history.check_checkpoints(tmp_path, 9)
        writer.write(37, {"train/loss": 1.0})
    with pytest.raises(InputError, match="comes to step 37"):
        history.check_checkpoints(tmp_path, 9)


def test_lines_of_metrics_that_are_gone_are_told(trained, run):
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:-1]))
    words = f"has {len(lines) - 1} of the {len(lines)} lines that it had at step 60"
    assert_refused(trained.config, run, words)
    remove(run / "metrics.jsonl")
    assert_refused(trained.config, run, f"has 0 of the {len(lines)} lines")
    assert not (run / "metrics.jsonl").exists()


def test_metrics_of_another_run_or_damaged_are_told(trained, run, other):
    lines = (run / "metrics.jsonl").read_bytes()
    take(run, other, "metrics.jsonl")
    assert (run / "metrics.jsonl").read_bytes().count(b"\n") == lines.count(b"\n")
    words = r"isn't what it was at step 60: it is damaged, or of another run; bring it back"
    assert_refused(trained.config, run, words)
    with pytest.raises(InputError, match="isn't what it was when the run came to its end"):
        read_results(run.parent)  # of the only run
    place = lines.index(b'"train/loss": ') + 18
    (run / "metrics.jsonl").write_bytes(lines[:place] + b"7" + lines[place + 1 :])
    assert (run / "metrics.jsonl").read_bytes() != lines
    assert_refused(trained.config, run, words)


def test_checkpoints_of_another_run_are_refused(trained, run, other):
    take(run, other, "checkpoints")
    assert_refused(trained.config, run, "is of another run")
    with pytest.raises(InputError, match="is of another run"):
        open_run(run)
    with pytest.raises(InputError, match="is of another run"):
        quietly_from(trained.config, run.parent / "new", run)


def quietly_from(config, directory, origin):
    train(config, directory, [], init_from=origin)


def test_a_best_checkpoint_of_another_run_is_refused_before_anything_is_trained(
    run, other, trained
):
    take(run, other, "checkpoints/best")
    config = tiny.config(trained.config.data.source)
    config.train.steps = 69
    assert_refused(config, run, "its best checkpoint is of another run")


@pytest.mark.parametrize("name", ["config.json", "manifest.json"])
def test_a_configuration_that_is_not_the_runs_own_is_refused(name, trained, run, other):
    take(run, other, name)
    words = r"config\.json isn't what this run was begun with \(seed was"
    with pytest.raises(InputError, match=words):
        open_run(run)
    assert_refused(trained.config, run, "seed is 3 there and 0 now|seed was 3 and is 0")
    with pytest.raises(InputError, match=words):  # of the only run
        read_results(run.parent)
    if name == "config.json":
        # The checkpoints know it too.
        remove(run / "manifest.json")
        with pytest.raises(InputError, match="saved under another configuration"):
            open_run(run)


def test_a_result_of_another_run_is_not_compared(run, other):
    take(run, other, "result.json")
    with pytest.raises(InputError, match=r"result\.json is of another run"):
        read_results(run.parent)


def test_a_run_without_its_manifest_keeps_its_name(trained, run):
    before = manifest.identify(run)
    assert len(before["id"]) == 16
    remove(run / "manifest.json")
    assert "resuming from step 60" in quietly(trained.config, run)
    assert manifest.identify(run) == before


def test_restart_moves_the_old_aside_whole(trained, run):
    remove(run / "checkpoints")
    before = tree_hash(run)
    config = tiny.config(trained.config.data.source)
    config.seed, config.train.steps = 4, 9
    train(config, run, [], restart=True)
    assert tree_hash(run.with_name("run.old-1")) == before
    assert steps_saved(run, "latest") == [9]
    train(config, run, [], restart=True)
    assert tree_hash(run.with_name("run.old-1")) == before
    assert run.with_name("run.old-2").is_dir()
    assert manifest.identify(run)["id"] != manifest.identify(run.with_name("run.old-2"))["id"]


def test_restart_refuses_the_directory_that_the_command_runs_in(trained, run, monkeypatch):
    monkeypatch.chdir(run)
    with pytest.raises(InputError, match="where this command runs"):
        train(trained.config, run, [], restart=True)


def test_a_workdir_of_a_version_that_named_no_run_goes_on(trained, run):
    known = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({"starts": known["starts"]}))
    result = json.loads((run / "result.json").read_text())
    newer = (*RESULT_OWN, durable.CHECKSUM)
    (run / "result.json").write_text(to_json({k: v for k, v in result.items() if k not in newer}))
    for path in run.glob("checkpoints/*/*"):
        saved = path / "progress" / "metadata"
        progress = json.loads(saved.read_text())
        assert set(progress.pop("run")) == {"id", "config"}
        assert progress.pop("lines_digest")
        saved.write_text(json.dumps(progress))
        (path / durable.CHECKSUMS).unlink()
        durable.write_checksums(path)
    assert open_run(run).step
    assert read_results(run.parent).runs
    lines = without_speed(run)
    config = tiny.config(trained.config.data.source)
    config.train.steps = 69
    assert "resuming from step 60" in quietly(config, run)
    assert without_speed(run)[: len(lines)] == lines
    assert set(manifest.identify(run)) == {"id", "config"}
