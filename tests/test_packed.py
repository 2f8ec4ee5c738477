"""Packed text is the plain text, told by the file's first bytes; what is damaged is one line."""

import gzip
import lzma

import pytest

from bahdanau_jax import packed
from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import count_lines, open_input, read_lines, read_pairs

TEXT = "".join(f"line {n} of é\n" for n in range(30_000))


def zstd(data: bytes) -> bytes:
    # The program zstd writes a checksum too; without one a frame can't tell every changed byte.
    zstandard = pytest.importorskip("zstandard", reason="zstandard isn't installed")
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACK = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}
every_kind = pytest.mark.parametrize("kind", PACK)


@every_kind
@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_lines_are_those_of_the_plain_file_whatever_its_name(kind, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(PACK[kind](TEXT.encode()))
    assert list(read_lines(path)) == TEXT.splitlines()
    assert count_lines(path) == 30_000
    assert list(read_pairs(path, path))[-1] == (TEXT.splitlines()[-1],) * 2
    with open_input(str(path)) as stream:
        assert stream.read().decode() == TEXT


@every_kind
def test_files_that_are_put_together_are_read_to_the_last(kind, tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes(PACK[kind](b"a\nb") + PACK[kind](b"c\nd\n"))
    assert list(read_lines(path)) == ["a", "bc", "d"]


@every_kind
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.9999])
def test_a_file_that_is_cut_off_is_one_line(kind, kept, tmp_path):
    whole = PACK[kind](TEXT.encode())
    path = tmp_path / "in.txt"
    path.write_bytes(whole[: int(len(whole) * kept)])
    for read in (count_lines, lambda path: list(read_lines(path))):
        with pytest.raises(InputError, match=r"in\.txt, after line [\d,]+: .*damaged or cut off"):
            read(path)
    with pytest.raises(InputError, match="damaged or cut off"), open_input(str(path)):
        raise AssertionError("a file is checked before anything is done with it")


@every_kind
def test_a_file_with_another_byte_is_one_line(kind, tmp_path):
    changed = bytearray(PACK[kind](TEXT.encode()))
    changed[len(changed) // 2] ^= 0xFF
    (tmp_path / "in.txt").write_bytes(changed)
    with pytest.raises(InputError):
        list(read_lines(tmp_path / "in.txt"))


def test_without_a_library_for_zstandard_the_extra_is_named(tmp_path, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(packed.importlib, "import_module", absent)
    (tmp_path / "in.txt").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(InputError, match=r"bahdanau_jax\[zstd\]") as refused:
        list(read_lines(tmp_path / "in.txt"))
    assert "\n" not in str(refused.value)
