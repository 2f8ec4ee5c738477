import os
import subprocess
import sys

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


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(os.path.dirname(__file__)) is None
