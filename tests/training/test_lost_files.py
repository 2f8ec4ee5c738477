"""A run that lost a file, or got another run's: it is told, and nothing is overwritten."""

import json
import shutil

import pytest
import tiny
from launching import tree_hash
from same_run import quietly, steps_saved, without_speed

from bahdanau_jax import durable
from bahdanau_jax.comparison.results import read_results
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir import history, manifest
from bahdanau_jax.workdir.metrics_log import MetricsWriter, write_result


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
    before = {path.name: tree_hash(path) for path in run.iterdir() if path.is_dir()}
    with pytest.raises(InputError, match=words):
        quietly(config, run)
    assert {path.name: tree_hash(path) for path in run.iterdir() if path.is_dir()} == before


def test_checkpoints_that_are_gone_are_told(trained, run):
    remove(run / "checkpoints")
    metrics = (run / "metrics.jsonl").read_bytes()
    assert_refused(trained.config, run, r"checkpoints are gone, although result\.json is there")
    remove(run / "result.json")
    assert_refused(trained.config, run, r"although metrics\.jsonl comes to step 60; bring it back")
    assert (run / "metrics.jsonl").read_bytes() == metrics


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


def test_checkpoints_of_another_run_are_refused(trained, run, other):
    take(run, other, "checkpoints")
    assert_refused(trained.config, run, "is of another run")
    with pytest.raises(InputError, match="is of another run"):
        open_run(run)
    with pytest.raises(InputError, match="is of another run"):
        quietly_from(trained.config, run.parent / "new", run)


def quietly_from(config, directory, origin):
    train(config, directory, [], init_from=origin)


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
    write_result(run, {k: v for k, v in result.items() if k not in ("run", "start")})
    for path in run.glob("checkpoints/*/*"):
        saved = path / "progress" / "metadata"
        progress = json.loads(saved.read_text())
        assert set(progress.pop("run")) == {"id", "config"}
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
