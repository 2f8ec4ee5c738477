import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from strict_json import strict

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import to_dict
from bahdanau_jax.workdir.manifest import git_state, write_manifest


def test_each_start_is_added_to_the_manifest(tmp_path):
    fingerprints = {"data": "12ab", "vocabulary": "34cd"}
    write_manifest(tmp_path, Config(), overrides=["seed=0"], fingerprints=fingerprints)
    first = strict((tmp_path / "manifest.json").read_text())["starts"]
    write_manifest(tmp_path, Config(seed=1), overrides=[], fingerprints=fingerprints, step=500)
    starts = strict((tmp_path / "manifest.json").read_text())["starts"]
    assert starts[:1] == first
    assert [start["step"] for start in starts] == [0, 500]
    assert starts[0]["config"] == to_dict(Config())
    assert starts[1]["config"]["seed"] == 1
    assert starts[0]["overrides"] == ["seed=0"]
    assert starts[0]["fingerprints"] == fingerprints
    assert starts[0]["command"] == sys.argv
    assert starts[0]["versions"]["numpy"] == np.__version__
    assert {"python", "jax", "flax", "optax", "orbax-checkpoint"} <= set(starts[0]["versions"])
    assert starts[0]["devices"]["count"] >= 1
    assert starts[0]["time"].endswith("+00:00")


def test_a_manifest_that_cannot_be_read_is_not_overwritten(tmp_path):
    (tmp_path / "manifest.json").write_text('{"starts": [')
    with pytest.raises(InputError, match="move it away"):
        write_manifest(tmp_path, Config(), overrides=[], fingerprints={})
    assert (tmp_path / "manifest.json").read_text() == '{"starts": ['


def git(directory, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", directory, *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_and_whether_it_was_changed(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    assert git_state(code) is None
    git(tmp_path, "init", "-q")
    (code / "a.py").write_text("1\n")
    git(tmp_path, "add", ".")
    assert git_state(code) is None  # no commit yet
    git(tmp_path, "commit", "-q", "-m", "first", "--no-gpg-sign")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert git_state(code) == {"commit": commit, "dirty": False}
    installed = code / "installed"
    installed.mkdir()
    (installed / "a.py").write_text("1\n")
    assert git_state(installed) is None  # in a checkout, and not of it
    assert git_state(code) == {"commit": commit, "dirty": False}
    (code / "a.py").write_text("2\n")
    assert git_state(code) == {"commit": commit, "dirty": True}


def test_what_the_commit_lacks_makes_it_dirty(tmp_path, monkeypatch):
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("1\n")
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first", "--no-gpg-sign")

    def dirty(experiment=None):
        return (git_state(tmp_path, experiment) or {})["dirty"]

    for name in ("new.py", "ignored.py"):
        (tmp_path / name).write_text("2\n")
        assert dirty(tmp_path / name)
    assert not dirty() and not dirty(tmp_path / "a.py")
    assert dirty(tmp_path.parent / "elsewhere.py")
    monkeypatch.chdir(tmp_path)
    assert not dirty(Path("a.py")) and dirty(Path("new.py"))
    # What an experiment has imported, as another experiment, is part of what ran.
    module = types.ModuleType("new")
    module.__file__ = str(tmp_path / "new.py")
    monkeypatch.setitem(sys.modules, "new", module)
    assert dirty() and dirty(Path("a.py"))


def test_every_text_of_an_experiment_is_kept(tmp_path):
    experiment = tmp_path / "mine.py"
    work = tmp_path / "w"
    work.mkdir()
    for text in ("a = 1\n", "a = 2\n", "a = 1\n"):
        experiment.write_text(text)
        write_manifest(work, Config(), overrides=[], fingerprints={}, experiment=experiment)
    starts = strict((work / "manifest.json").read_text())["starts"]
    kept = [start["experiment"]["kept"] for start in starts]
    assert [(work / name).read_text() for name in kept] == ["a = 1\n", "a = 2\n", "a = 1\n"]
    assert kept[0] == kept[2] != kept[1]
    assert {start["experiment"]["path"] for start in starts} == {str(experiment)}
    assert all(start["git"]["dirty"] for start in starts if start["git"])


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(os.path.dirname(__file__)) is None
