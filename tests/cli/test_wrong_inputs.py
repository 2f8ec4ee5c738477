"""Wrong inputs beside those of test_launch.py, and a count of all: each gets its line.

None shows a traceback, and none writes to what was there.
"""

import pickle
import shutil

import pytest
from launching import launch, tree_hash
from strangers import open_with_pickles, pickles
from test_launch import (
    DATA,
    EVALUATE,
    FLAGS,
    GOOD,
    RUNS,
    TEXT,
    TRAIN,
    TRANSLATE,
    TSV,
    changed,
    check_refusal,
    names_below,
    overwrite,
    remove,
    write_text,
)

from bahdanau_jax.data.vocabularies import Vocabularies, build
from bahdanau_jax.evaluation.trained_run import open_run, open_run_data
from bahdanau_jax.runtime.setup import cache_directory
from bahdanau_jax.workdir import directory as workdir

MORE_FLAGS = [
    (["--coordinator=h:1"], "--coordinator has no effect without --distributed; add it"),
    (["--distributed", "--mode=evaluate"], "--distributed is for --mode=train"),
    (["--distributed", "--coordinator=h"], "--coordinator must be HOST:PORT; it is 'h'"),
    (["--distributed", "--process=-1"], "--process=-1"),
    (["--distributed", "--processes=0"], "--processes=0"),
    (
        ["--distributed", "--coordinator=h:1", "--processes=2", "--process=2"],
        "--process must be below --processes",
    ),
    (["--deterministic=perhaps"], "--deterministic=perhaps"),
    (["--nbest=many", "--mode=translate"], "'many' is no whole number"),
    (["--temperature=", "--mode=translate"], "'' is no number"),
    (
        ["--mode=translate", "--output=x", "--alignments=./x"],
        "--output and --alignments name the same file",
    ),
    (["--mode=translate", "--ensemble=,"], "--ensemble has an empty name"),
    (["--mode=translate", "--ensemble=@latest"], "--ensemble has an empty name"),
    (["--replicas=0"], "--replicas=0: give at least 1"),
    (["--replicas=-1"], "--replicas=-1: give at least 1"),
    (["--replicas=sed=1,2"], "--replicas: unknown configuration field sed; did you mean seed?"),
    (["--init_from="], "--init_from is empty"),
    (["--mode=translate", "--init_from=x"], "--init_from is for --mode=train"),
    (["--config.train.max_skipped=0"], "train.max_skipped must be at least 1; it is 0"),
    (["--config.train.steps=3000000000"], "train.steps must be at least 1 and below 2147483648"),
    (["--config.seed=5000000000"], "seed must be at least 0 and below 4294967296"),
    (["--config.train.batch_size=0"], "train.batch_size must be at least 1; it is 0"),
    (["--config.model.embedding=-4"], "model.embedding must be at least 1; it is -4"),
    (["--config.data.shapes=0"], "data.shapes must be at least 1; it is 0"),
    (["--config.train.learning_rate=inf"], "train.learning_rate must be at least 0; it is inf"),
]

MORE_DATA = {
    "UTF-16": ({"train_tsv": "a\tb\n".encode("utf-16"), "dev_tsv": "a\tb\n"}, TSV, "train.tsv"),
    "Latin-1 in the last line": (
        {"train_tsv": b"a\tb\n" * 99 + b"\xe9\tb\n", "dev_tsv": "a\tb\n"},
        TSV,
        "train.tsv, line 100: not UTF-8",
    ),
    "a packed file that is cut off": (
        {"train_tsv": b"\x1f\x8b\x08\0\0\0\0\0", "dev_tsv": "a\tb\n"},
        TSV,
        "train.tsv, after line 0: packed text that is damaged or cut off",
    ),
    "a test set of another number of lines": (
        GOOD | {"test_en": "a\nb\n", "test_de": "x\n"},
        TEXT,
        "test.en has 2 lines, but data/test.de has 1",
    ),
    "a file for a directory": (None, ["--config.data.source=tsv:file"], "file is no directory"),
    "neither language": (
        GOOD,
        changed(TEXT, "--config.data.source_language="),
        "data.source_language: data has no text in an unnamed language",
    ),
    "a vocabulary too small": (
        GOOD,
        [*TEXT, "--config.data.vocabulary.size=3"],
        "a vocabulary of 3 entries has no room",
    ),
}

SPELL = ["--config=spelling.py"]


def damage_all(run):
    """Cuts every checkpoint short."""
    for path in (run / "checkpoints").glob("*/*/checksums.json"):
        path.write_text("{}")


def forget_rows(run):
    """Leaves out the word of a vocabulary's last row."""
    path = run / "vocabulary" / "target.json"
    path.write_text(path.read_text().replace('"F"', '"G"'))


def other_vocabulary(run):
    """Puts another vocabulary in the place of the run's, with an index that fits it."""
    other = Vocabularies(build("characters", 0, ["ghijkl"]), build("symbols", 0, ["G H I J K L"]))
    shutil.rmtree(run / "vocabulary")
    other.save(run / "vocabulary")


def put_directory(name):
    def change(run):
        (run / name).unlink()
        (run / name).mkdir()

    return change


def put_file(name):
    def change(run):
        shutil.rmtree(run / name)
        (run / name).write_text("in the way")

    return change


MORE_RUNS = {
    "another run that isn't there": (
        None,
        [*SPELL, "--workdir=new", "--init_from=absent"],
        b"",
        "--init_from=absent: no config.json here",
    ),
    "another run with another model": (
        None,
        [*SPELL, "--workdir=new", "--init_from=run", "--config.model.embedding=8"],
        b"",
        "--init_from=run holds another model: model.embedding is 16 there and 8 here",
    ),
    "another run without a checkpoint": (
        put_file("checkpoints"),
        [*SPELL, "--workdir=new", "--init_from=run"],
        b"",
        "run/checkpoints: there is no checkpoint",
    ),
    "a data order that may not change": (
        None,
        [*TRAIN, "--config.data.seed=4"],
        b"",
        "data.seed is 0 there and 4 now",
    ),
    "another vocabulary": (other_vocabulary, TRANSLATE, b"fed\n", "the vocabulary isn't what"),
    "another vocabulary on resume": (
        other_vocabulary,
        TRAIN,
        b"",
        "the vocabulary isn't what",
    ),
    "another vocabulary in evaluation": (other_vocabulary, EVALUATE, b"", "the vocabulary isn't"),
    "a changed vocabulary": (forget_rows, TRANSLATE, b"", "target.json is damaged"),
    "every checkpoint damaged": (damage_all, EVALUATE, b"", "every checkpoint is damaged"),
    "a file for the checkpoints": (
        put_file("checkpoints"),
        EVALUATE,
        b"",
        "there is no checkpoint",
    ),
    "a file for the vocabulary": (put_file("vocabulary"), EVALUATE, b"", "can't read the vocab"),
    "a directory for the configuration": (
        put_directory("config.json"),
        EVALUATE,
        b"",
        "config.json: can't be read",
    ),
    "a configuration of numbers": (overwrite("config.json", b"7"), EVALUATE, b"", "config.json"),
    "a number for a name": (
        overwrite("config.json", b'{"model": {"cell": 3}}'),
        EVALUATE,
        b"",
        "model.cell must be str, not 3",
    ),
    "a configuration that is gone": (
        remove("config.json"),
        [*TRAIN, "--config.train.label_smoothing=0.1"],
        b"",
        "run has checkpoints, but its config.json is missing",
    ),
    "an empty manifest": (overwrite("manifest.json", b""), TRANSLATE, b"", "manifest.json"),
    "a manifest of another kind": (overwrite("manifest.json", b"[1]"), EVALUATE, b"", "manifest"),
    "a huge step": (None, [*EVALUATE, "--checkpoint=99999999999"], b"", "no checkpoint of step"),
}


@pytest.mark.parametrize(
    ("arguments", "said"), MORE_FLAGS, ids=[" ".join(x) for x, _ in MORE_FLAGS]
)
def test_a_wrong_command_line_is_answered_by_one_line(arguments, said, tmp_path):
    before = names_below(tmp_path)
    assert check_refusal(launch(arguments, tmp_path), said) == []
    assert names_below(tmp_path) == before


@pytest.mark.parametrize("case", MORE_DATA)
def test_data_that_cannot_be_used_is_answered_by_one_line_and_claims_nothing(case, tmp_path):
    files, arguments, said = MORE_DATA[case]
    (tmp_path / "file").write_text("")
    if files is not None:
        write_text(tmp_path / "data", **files)
    check_refusal(launch([*arguments, "--workdir=run"], tmp_path), said)
    left = {name for name in names_below(tmp_path) if name.startswith("run/")}
    assert left <= {f"run/{workdir.LOCK}"}


@pytest.mark.parametrize("case", MORE_RUNS)
def test_a_mistake_about_a_run_is_answered_by_one_line_and_changes_nothing(
    case,
    finished_run,
    tmp_path,
):
    change, arguments, stdin, said = MORE_RUNS[case]
    if change is not None:
        change(finished_run)
    before = tree_hash(finished_run)
    check_refusal(launch(arguments, tmp_path, stdin), said)
    assert tree_hash(finished_run) == before
    assert not (tmp_path / "new" / "config.json").exists()


def test_there_are_more_than_sixty():
    cases = [" ".join(arguments) for arguments, _ in FLAGS + MORE_FLAGS]
    cases += [f"data: {case}" for case in [*DATA, *MORE_DATA]]
    cases += [f"run: {case}" for case in [*RUNS, *MORE_RUNS]]
    assert len(set(cases)) == len(cases) >= 110


def test_a_workdir_from_a_stranger_runs_no_code(finished_run, tmp_path):
    marker = tmp_path / "ran"
    pickle.loads(pickles(marker)[0])
    assert marker.is_dir()  # the payload does what it is made for
    marker.rmdir()
    refusals = open_with_pickles(finished_run, marker)
    assert not marker.exists()
    assert len(refusals) > 40
    assert sum(bool(refusal) for _, refusal in refusals) >= 20
    assert all("\n" not in refusal for _, refusal in refusals)
    arrays = [refusal for name, refusal in refusals if name == "manifest.ocdbt"]
    assert arrays
    assert all("was written so, but can't be read" in refusal for refusal in arrays if refusal)
    (finished_run / "refusals").unlink()
    open_run(finished_run)


def test_a_cache_from_a_stranger_runs_no_code(trained, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = open_run_data(trained.directory, trained.config, lambda _: None)
    pairs = len(data.training_store(lambda _: None))
    files = sorted((cache_directory() / "tokens").rglob("*.npy"))
    assert len(files) == 4
    for path in files:
        for bad in pickles(tmp_path / "ran"):
            path.write_bytes(bad)
            assert len(data.training_store(lambda _: None)) == pairs  # which is made anew
            assert not (tmp_path / "ran").exists()
            assert path.read_bytes() != bad
