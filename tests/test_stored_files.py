import json
import os
import socket

import pytest

from bahdanau_jax import durable
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import open_regular, parse_json, read_json, refuse_strange_files


def make_link_out(path, target):
    target.write_text("kept")
    path.symlink_to(target)


def make_link_to_folder(path, target):
    target.mkdir()
    path.symlink_to(target)


def make_dangling(path, target):
    path.symlink_to(target)


def make_socket(path, target):
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path.name)


STRANGE = {
    "link": make_link_out,
    "link to a folder": make_link_to_folder,
    "dangling link": make_dangling,
    "FIFO": lambda path, target: os.mkfifo(path),
    "device": lambda path, target: path.symlink_to("/dev/zero"),
    "socket": make_socket,
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("name", ["config.json", "alignments/test/1.png"])
def test_what_leads_out_of_a_workdir_or_would_keep_a_reader_waiting_is_refused(
    kind, name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / name
    path.parent.mkdir(parents=True)
    STRANGE[kind](path, tmp_path / "elsewhere")
    with pytest.raises(InputError, match=path.name):
        refuse_strange_files(tmp_path / "run")


def test_files_folders_links_within_and_a_linked_workdir_are_taken(tmp_path):
    refuse_strange_files(tmp_path / "absent")
    (tmp_path / "run" / "a").mkdir(parents=True)
    (tmp_path / "run" / "a" / "file").touch()
    (tmp_path / "run" / "within").symlink_to("a/file")
    (tmp_path / "run" / "up").symlink_to(".")
    (tmp_path / "latest").symlink_to("run")
    refuse_strange_files(tmp_path / "run")
    refuse_strange_files(tmp_path / "latest")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/zero", p)])
def test_only_a_regular_file_is_opened(make, tmp_path):
    make(tmp_path / "it")
    with pytest.raises(OSError, match="no regular file"):
        open_regular(tmp_path / "it")
    with pytest.raises(OSError, match="no regular file"):
        read_json(tmp_path / "it")


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 200_000, '"\\ud800"', '{"\\uDFFF": 1}', "9" * 5000, "", "\0", "{"],
)
def test_json_that_cannot_be_read_or_written_again_is_one_kind_of_error(text):
    for given in (text, text.encode()):
        with pytest.raises(ValueError):
            parse_json(given)


@pytest.mark.parametrize("value", ["\U0001f600", "\\ud800", "é", {"a": [1.5, None]}])
def test_json_is_read_as_it_was_written(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("name", ["../outside", "/dev/zero", "a/../../outside"])
def test_checksums_name_nothing_outside_their_directory(name, tmp_path):
    listed = {"files": {name: {"bytes": 0, "sha256": "0"}}}
    (tmp_path / durable.CHECKSUMS).write_text(json.dumps(listed))
    assert "lies elsewhere" in str(durable.damage(tmp_path))
