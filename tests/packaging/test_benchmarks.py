"""Each benchmark's smallest case, from a fresh installation and another folder."""

import json
import os

import pytest
from installing import Installation, run


def benchmark(installation: Installation, cwd, name: str, *arguments) -> str:
    """Runs a benchmark to its end; returns what it printed."""
    command = [installation.python, installation.clone / "benchmarks" / f"{name}.py", *arguments]
    done = run(command, cwd, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def torch():
    pytest.importorskip("torch", reason="PyTorch isn't installed: nothing to measure beside")


# These need toolkits that no test installs. Of the others, tests run the smallest case.
@pytest.mark.parametrize("name", ["toolkit_decoding", "toolkits"])
def test_it_starts_and_says_what_it_takes(editable, tmp_path, name):
    assert "--" in benchmark(editable, tmp_path, name, "--help")


def test_the_input(editable, tmp_path):
    made, opened = benchmark(editable, tmp_path, "input", "--pairs=2000").splitlines()
    assert made.startswith("made: 2,000 pairs in ")
    assert opened.startswith("opened in ")


def test_decoding_alone(editable, tmp_path, trained):
    words = tmp_path / "words"
    words.write_text("abc\nfed\n")
    arguments = [f"--workdir={trained.directory}", f"--text={words}", "--json=figures.json"]
    arguments += ["--repeats=1", "--beam_size=2", "--only=bahdanau_jax"]
    benchmark(editable, tmp_path, "decode", *arguments)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["sentences"] == 2
    assert figures["contenders"].keys() == {"bahdanau_jax"}


@pytest.mark.slow
def test_decoding_beside_pytorch(editable, tmp_path, trained, torch):
    words = tmp_path / "words"
    words.write_text("abc\nfed\n")
    arguments = [f"--workdir={trained.directory}", f"--text={words}", "--json=figures.json"]
    benchmark(editable, tmp_path, "decode", *arguments, "--repeats=1", "--beam_size=2")
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["same_hypotheses"] == figures["sentences"] == 2


@pytest.mark.slow
def test_the_training_step_beside_pytorch(editable, tmp_path, torch):
    out = benchmark(editable, tmp_path, "train_step", "--shape=smallest", "--repeats=1")
    assert out.splitlines()[-1].startswith("ours / pytorch: ")


@pytest.mark.slow
def test_memory_beside_pytorch(editable, tmp_path, torch):
    out = benchmark(editable, tmp_path, "memory", "--smallest", "--lengths=5")
    head, row = out.splitlines()
    assert head.split("\t")[0] == "S = T"
    assert row.split("\t")[0] == "5"


@pytest.mark.slow
def test_replicas(editable, tmp_path):
    out = benchmark(editable, tmp_path, "replicas", "--replicas=1,2", "--repeats=1")
    assert [line.split("|")[1].strip() for line in out.splitlines()[2:]] == ["1", "2"]


@pytest.mark.slow
def test_the_time_of_scores(editable, tmp_path):
    arguments = ("--scores=additive", "--lengths=3", "--repeats=1")
    out = benchmark(editable, tmp_path, "score_time", *arguments)
    _, *rows = (line.split("\t") for line in out.splitlines())
    assert [row[1] for row in rows] == ["additive", "dot"]  # which is compared with dot
