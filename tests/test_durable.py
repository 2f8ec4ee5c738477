import json
import os

import pytest

from bahdanau_jax import durable
from bahdanau_jax.errors import one_line


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    durable.write_atomically(path, b"\xff\x00")
    assert path.read_bytes() == b"\xff\x00"
    durable.write_atomically(path, "first\r\n")
    assert path.read_bytes() == b"first\r\n"
    durable.write_atomically(path, "zweite — ü\n")
    assert path.read_bytes() == "zweite — ü\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_while_writing_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    durable.write_atomically(path, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        durable.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "below" / "deeper").mkdir(parents=True)
    (tmp_path / "a.bin").write_bytes(bytes(range(256)))
    (tmp_path / "below" / "deeper" / "b.txt").write_text("text")
    (tmp_path / "below" / "empty").write_bytes(b"")
    durable.write_checksums(tmp_path)
    return tmp_path


def test_an_untouched_directory_has_no_damage(directory):
    assert durable.damage(directory) is None


def test_every_file_is_named_with_its_size_and_digest(directory):
    files = json.loads((directory / durable.CHECKSUMS).read_text())["files"]
    assert {name: entry["bytes"] for name, entry in files.items()} == {
        "a.bin": 256,
        "below/deeper/b.txt": 4,
        "below/empty": 0,
    }
    # SHA-256 of no byte, FIPS 180-4.
    assert files["below/empty"]["sha256"] == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )


@pytest.mark.parametrize("bit", [0, 1, 7, 8 * 255 + 7])
def test_a_single_flipped_bit_is_found(directory, bit):
    data = bytearray((directory / "a.bin").read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    (directory / "a.bin").write_bytes(data)
    assert durable.damage(directory) == "a.bin isn't what was written: its checksum differs"


def test_a_shorter_and_a_longer_file_are_found(directory):
    os.truncate(directory / "a.bin", 255)
    assert durable.damage(directory) == "a.bin has 255 bytes where 256 were written"
    os.truncate(directory / "a.bin", 257)
    assert durable.damage(directory) == "a.bin has 257 bytes where 256 were written"


def test_a_missing_file_is_found(directory):
    (directory / "below" / "deeper" / "b.txt").unlink()
    assert durable.damage(directory) == (
        "below/deeper/b.txt can't be read (No such file or directory)"
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"files": 3}', b'{"files": {"a": {}}}', b"\xff"]
)
def test_a_list_that_cannot_be_read_is_damage(directory, content):
    (directory / durable.CHECKSUMS).write_bytes(content)
    assert (durable.damage(directory) or "").startswith("checksums.json can't be read")


def test_an_empty_list_vouches_for_nothing(directory):
    (directory / durable.CHECKSUMS).write_text('{"files": {}}')
    assert durable.damage(directory) == "checksums.json names no file"


def test_writing_leaves_no_other_file_behind(directory):
    assert sorted(p.name for p in directory.iterdir()) == ["a.bin", "below", durable.CHECKSUMS]


def test_a_full_disk_is_named(tmp_path):
    with (
        pytest.raises(OSError, match="/dev/full") as caught,
        durable.NamedFile("/dev/full", "wb") as file,
    ):
        file.write(b"text")
    assert "/dev/full" in str(one_line(caught.value))


def test_json_says_whether_it_is_what_was_written():
    values = {"a": [1, 2.5, "ü"], "b": {"c": None}}
    written = durable.with_checksum(values)
    assert durable.without_checksum(json.loads(json.dumps(written))) == values
    assert durable.without_checksum(values) == values  # of a version that wrote none
    content = json.dumps(written)
    for place in range(len(content)):
        damaged = content[:place] + chr(ord(content[place]) ^ 1) + content[place + 1 :]
        try:
            read = json.loads(damaged)
        except ValueError:
            continue
        if durable.CHECKSUM not in read:  # whose own name is damaged, and nothing else
            assert values.items() <= read.items()
            continue
        with pytest.raises(durable.ChecksumError):
            durable.without_checksum(read)
