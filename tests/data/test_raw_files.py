import gzip
import hashlib
import socket
import time

import pytest
import serving

from bahdanau_jax.data.datasets import raw_files
from bahdanau_jax.errors import InputError

TEXTS = {"train.en": b"a house\n", "train.de": b"ein Haus\n"}
STORED = {"train.en.gz": gzip.compress(TEXTS["train.en"], mtime=0), "train.de": TEXTS["train.de"]}
SHA256 = {
    name: hashlib.sha256(TEXTS[name.removesuffix(".gz")]).hexdigest()
    for name in ("train.en.gz", "train.de")
}


@pytest.fixture(autouse=True)
def _no_way_but_those_of_a_test(monkeypatch):
    monkeypatch.delenv(raw_files.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server():
    with serving.serving(STORED) as served:
        yield served


def raw(address="http://127.0.0.1:9/folder"):
    return raw_files.RawFiles("set/config", "set", address, SHA256)


def put(folder, files):
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def complaint(place, address="http://127.0.0.1:9/folder"):
    with pytest.raises(InputError) as caught:
        raw_files.read_raw_files(raw(address), place)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_what_is_in_no_directory_is_downloaded_and_nothing_is_left_behind(tmp_path, server, capsys):
    assert raw_files.read_raw_files(raw(server.address), tmp_path) == TEXTS
    assert server.asked == list(STORED)
    assert list(tmp_path.iterdir()) == []
    out, err = capsys.readouterr()
    assert out == ""
    assert f"from {server.address}, as there is no {tmp_path}" in err


@pytest.mark.parametrize("files", [STORED, TEXTS])
def test_the_variable_names_a_directory_whose_files_may_be_unpacked(
    tmp_path, server, monkeypatch, files
):
    put(tmp_path / "mine" / "set", files)
    monkeypatch.setenv(raw_files.VARIABLE, str(tmp_path / "mine"))
    put(tmp_path / "downloads" / "manual" / "set", {})  # a later place
    assert raw_files.read_raw_files(raw(server.address), tmp_path) == TEXTS
    assert server.asked == []


def test_a_directory_of_another_set_goes_on_to_the_next_place(tmp_path, server, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv(raw_files.VARIABLE, str(tmp_path / "mine"))
    put(tmp_path / "downloads" / "manual" / "set", TEXTS)
    assert raw_files.read_raw_files(raw(server.address), tmp_path) == TEXTS
    assert server.asked == []


def test_a_directory_may_hold_what_was_made_of_the_files(tmp_path):
    folder = put(tmp_path / "downloads" / "manual" / "set", {**TEXTS, "table": b"x"})
    derived = {"table": hashlib.sha256(b"x").hexdigest()}
    assert raw_files.read_raw_files(raw(), tmp_path, derived) == {"table": b"x"}
    (folder / "table").unlink()
    assert raw_files.read_raw_files(raw(), tmp_path, derived) == TEXTS


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("train.de", b"ein Hau", "has the SHA-256"),
        ("train.en.gz", gzip.compress(b"other", mtime=0), "has the SHA-256"),
        ("train.en.gz", STORED["train.en.gz"][:-9], "no whole gzip file"),
        ("train.en.gz", b"<html>", "no whole gzip file"),
    ],
    ids=["cut text", "other text", "cut gzip", "page"],
)
def test_files_that_are_not_the_right_ones_are_refused(tmp_path, server, name, content, words):
    folder = put(tmp_path / "downloads" / "manual" / "set", {**STORED, name: content})
    message = complaint(tmp_path)
    assert f"tfds:set/config: {folder / name} can't be used" in message
    assert words in message
    assert "data.source=text:DIR" in message

    server[name] = content
    message = complaint(tmp_path / "elsewhere", server.address)
    assert f"can't get {server.address}/{name}" in message
    assert words in message


def test_a_folder_that_lacks_a_file_is_named_with_the_file_and_its_address(tmp_path, server):
    folder = put(tmp_path / "downloads" / "manual" / "set", {"train.en": TEXTS["train.en"]})
    message = complaint(tmp_path, server.address)
    assert f"{folder} has no train.de; get it from {server.address}/train.de" in message
    assert server.asked == []


def test_a_variable_that_names_no_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(raw_files.VARIABLE, str(tmp_path / "nowhere"))
    assert "BAHDANAU_JAX_DATA: " in complaint(tmp_path)


def test_a_variable_with_an_unknown_home_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(raw_files.VARIABLE, "~no such user/data")
    assert "BAHDANAU_JAX_DATA: ~no such user/data begins with a home" in complaint(tmp_path)


@pytest.mark.parametrize("where", ["variable", "folder", "manual"])
def test_a_place_that_cannot_be_entered_is_not_taken_for_absent(
    tmp_path, server, monkeypatch, where
):
    place = {
        "variable": tmp_path / "mine",
        "folder": tmp_path / "mine" / "set",
        "manual": tmp_path / "downloads" / "manual" / "set",
    }[where]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(place)  # permissions keep root from nothing
    if where != "manual":
        monkeypatch.setenv(raw_files.VARIABLE, str(tmp_path / "mine"))
    message = complaint(tmp_path, server.address)
    assert f"{place}: can't be read (" in message
    assert server.asked == []


def test_a_server_that_is_gone_is_told_with_every_way(tmp_path):
    with serving.serving(STORED) as gone:
        pass
    message = complaint(tmp_path, gone.address)
    assert f"can't get {gone.address}/train.en.gz (" in message
    assert "Connection refused" in message
    assert f"into {tmp_path}/downloads/manual/set (data.directory says where" in message
    assert "into set/ in a directory that the environment variable BAHDANAU_JAX_DATA" in message
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_a_network_says_so_at_once_with_every_way(tmp_path, monkeypatch):
    def unknown(*arguments, **options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setenv(raw_files.VARIABLE, str(tmp_path))
    start = time.monotonic()
    message = complaint(tmp_path, "http://example.org/folder")
    assert time.monotonic() - start < 5
    assert "can't get http://example.org/folder/train.en.gz" in message
    assert "Name or service not known" in message
    assert f"put train.en.gz, train.de of that address into {tmp_path}/downloads/manual" in message
    assert "the environment variable BAHDANAU_JAX_DATA" in message


@pytest.mark.parametrize("where", ["look-up", "server"])
def test_what_does_not_answer_is_given_up(tmp_path, server, monkeypatch, where):
    monkeypatch.setattr(raw_files, "PATIENCE", 0.3)
    if where == "look-up":
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(2))
    server.silent = True
    start = time.monotonic()
    message = complaint(tmp_path, server.address)
    assert time.monotonic() - start < 1.8
    assert "timed out" in message or "nothing came for 0.3 seconds" in message


def test_a_file_that_the_server_lacks_is_named(tmp_path, server):
    del server["train.de"]
    message = complaint(tmp_path, server.address)
    assert f"can't get {server.address}/train.de (HTTP status 404" in message
    assert "data.directory" in message
    assert raw_files.VARIABLE in message


def test_a_connection_that_breaks_off_leaves_nothing_and_the_next_try_succeeds(tmp_path, server):
    server["train.de"] = TEXTS["train.de"] + serving.CUT
    size = len(server["train.de"])
    message = complaint(tmp_path, server.address)
    assert f"{size:,} of {size + len(serving.CUT):,} bytes came" in message
    assert list(tmp_path.iterdir()) == []
    server["train.de"] = TEXTS["train.de"]
    assert raw_files.read_raw_files(raw(server.address), tmp_path) == TEXTS


def test_an_endless_file_is_not_read_to_its_end(tmp_path, server, monkeypatch):
    monkeypatch.setattr(raw_files, "_LARGEST", 20)
    server["train.en.gz"] = bytes(100)
    assert "more than 20 bytes" in complaint(tmp_path, server.address)
