import os
import time

import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps, pipeline
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.file_stamps import remembered, stamp
from bahdanau_jax.data.pipeline import open_data

OLD = time.time() - 100
SETTLED = file_stamps._SETTLED
TICK = 0.05  # seconds: more than what the kernel's clock for files takes for one moment


@pytest.fixture
def text(tmp_path, monkeypatch):
    """Three files, which are taken for old ones: nobody can set the time of their state back."""
    monkeypatch.setattr(file_stamps, "_SETTLED", 0)
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
    time.sleep(TICK)
    os.utime(file, (OLD, OLD + 1))
    assert stamp([file], "as text") not in (first, None)
    copy = text / "copy"
    copy.write_bytes(file.read_bytes())
    os.utime(copy, (OLD, OLD))
    first = stamp([file], "as text")
    copy.replace(file)  # another file of the same name, size and time
    assert stamp([file], "as text") != first


def test_text_that_is_changed_in_place_with_size_and_time_set_back_is_noticed(text):
    file = text / "train.tsv"
    before, first = file.stat(), stamp([file], "")
    time.sleep(TICK)
    file.write_text("abd\tA B D\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    for what in ("st_size", "st_mtime_ns", "st_ino"):
        assert getattr(after, what) == getattr(before, what)
    assert stamp([file], "") not in (first, None)


@pytest.mark.parametrize("touched", ["content", "time"])
def test_nothing_is_remembered_of_a_file_that_changed_just_now(
    text, tmp_path, monkeypatch, touched
):
    monkeypatch.setattr(file_stamps, "_SETTLED", SETTLED)
    (text / "train.tsv").write_text("abd\tA B D\n")
    if touched == "time":  # its content claims to be old, the state of the file can't
        os.utime(text / "train.tsv", (OLD, OLD))
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


def test_a_note_of_another_text_is_none(tmp_path):
    for mark in "ab":
        assert remembered(tmp_path, mark, lambda mark=mark: mark * 16) == mark * 16
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes())
    assert remembered(tmp_path, "b", lambda: "c" * 16) == "c" * 16


def test_every_bit_of_a_note_counts(tmp_path):
    assert remembered(tmp_path, "mark", lambda: "0123456789abcdef") == "0123456789abcdef"
    whole = (tmp_path / "mark").read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            (tmp_path / "mark").write_bytes(damaged)
            assert remembered(tmp_path, "mark", lambda: "f" * 16) == "f" * 16


def test_notes_that_cannot_be_kept_are_done_without(tmp_path):
    (tmp_path / "notes").write_text("no directory")
    for _ in range(2):
        assert remembered(tmp_path / "notes", "mark", lambda: "0" * 16) == "0" * 16
    assert (tmp_path / "notes").read_text() == "no directory"


def test_the_second_opening_reads_no_training_text_and_a_change_is_seen(
    text, tmp_path, monkeypatch
):
    monkeypatch.setattr(pipeline, "cache_directory", lambda: tmp_path / "cache")
    known = open_data(settings(text), None, print).fingerprints("train")
    read, fingerprint = [], Corpus.fingerprint
    monkeypatch.setattr(
        Corpus, "fingerprint", lambda self, split: read.append(split) or fingerprint(self, split)
    )
    assert open_data(settings(text), None, print).fingerprints("train") == known
    assert read == []
    time.sleep(TICK)
    path = text / "train.tsv"
    path.write_text(path.read_text().replace("a", "b"))
    os.utime(path, (OLD, OLD + 5))
    assert open_data(settings(text), None, print).fingerprints("train") != known
    assert read == ["train"]
    assert file_stamps.stamp([], "nothing to look at") is None
