import os
import time

import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps, pipeline
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.file_stamps import remembered, stamp
from bahdanau_jax.data.pipeline import open_data

OLD = time.time() - 100


@pytest.fixture
def text(tmp_path):
    for name, line in (("train", "abc\tA B C\n"), ("dev", "a\tA\n"), ("test", "b\tB\n")):
        file = tmp_path / f"{name}.tsv"
        file.write_text(line)
        os.utime(file, (OLD, OLD))
    return tmp_path


def settings(directory) -> DataConfig:
    config = DataConfig(source=f"tsv:{directory}")
    config.vocabulary.kind, config.vocabulary.size = "characters", 0
    return config


def test_a_stamp_is_the_state_of_the_files_and_of_how_they_are_read(text):
    file = text / "train.tsv"
    first = stamp([file], "as text")
    assert first == stamp([file], "as text") != stamp([file], "lower-cased")
    os.utime(file, (OLD, OLD + 1))
    assert stamp([file], "as text") not in (first, None)
    os.utime(file, (OLD, OLD))
    assert stamp([file], "as text") == first
    copy = text / "copy"
    copy.write_bytes(file.read_bytes())
    os.utime(copy, (OLD, OLD))
    copy.replace(file)  # another file of the same name, size and time
    assert stamp([file], "as text") != first


def test_nothing_is_remembered_of_a_file_that_changed_just_now(text, tmp_path):
    (text / "train.tsv").write_text("abd\tA B D\n")
    assert stamp([text / "train.tsv"], "") is None
    assert remembered(tmp_path / "notes", None, lambda: "0" * 16) == "0" * 16
    assert not (tmp_path / "notes").exists()


def test_a_fingerprint_is_computed_once_and_a_broken_note_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return f"{len(calls):016}"

    assert [remembered(tmp_path / "notes", "mark", compute) for _ in range(2)] == [f"{1:016}"] * 2
    (tmp_path / "notes" / "mark").write_bytes(b"\xff half")
    assert remembered(tmp_path / "notes", "mark", compute) == f"{2:016}"


def test_the_second_opening_reads_no_training_text_and_a_change_is_seen(
    text, tmp_path, monkeypatch
):
    monkeypatch.setattr(pipeline, "cache_directory", lambda: tmp_path / "cache")
    known = open_data(settings(text), None, print).fingerprints("train")
    read = []
    monkeypatch.setattr(Corpus, "fingerprint", lambda self, split: read.append(split) or "f" * 16)
    assert open_data(settings(text), None, print).fingerprints("train") == known
    assert read == []
    os.utime(text / "train.tsv", (OLD, OLD + 5))
    assert open_data(settings(text), None, print).fingerprints("train") != known
    assert read == ["train"]
    assert file_stamps.stamp([], "nothing to look at") is None
