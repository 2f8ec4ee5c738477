import bz2
import gzip
import io
import lzma
import os
import threading

import pytest

from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import InOrder, chunks, open_input, open_output, read_lines

# Bytes that are no UTF-8: lone surrogates, a byte that never occurs, an overlong form, a sequence
# that is cut off, and a code point that there isn't.
INVALID = [b"\xed\xa0\x80", b"a\xed\xbf\xbfb", b"\xff", b"\xc0\xaf", b"\xe2\x82"]
INVALID += [b"\xf4\x90\x80\x80"]


def test_lines_are_read_as_they_come():
    lines = read_lines(io.BytesIO(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\n\xff\n"))
    assert next(lines) == "a"
    assert next(lines) == "\ufeffb"  # a mark is one at the beginning only
    with pytest.raises(InputError, match="input, line 3"):
        next(lines)


@pytest.mark.parametrize("line", INVALID)
def test_bytes_that_are_no_text_are_refused_with_their_line(line, tmp_path):
    with pytest.raises(InputError, match="input, line 2: not UTF-8"):
        list(read_lines(io.BytesIO(b"a\n" + line + b"\nb\n")))
    path = tmp_path / "in.txt"
    path.write_bytes(b"a\n\nb\n" + line)
    with pytest.raises(InputError, match=r"in\.txt, line 4: not UTF-8"), open_input(str(path)):
        raise AssertionError("a file is checked before anything is done with it")


def test_chunks_grow_and_lose_nothing():
    lines = [str(number) for number in range(23)]
    made = list(chunks(iter(lines), first=2, size=8))
    assert [len(chunk) for chunk in made] == [2, 4, 8, 8, 1]
    assert [line for chunk in made for line in chunk] == lines
    assert list(chunks(iter([]), 2, 8)) == []


def test_what_came_is_handed_on_while_nothing_more_comes():
    asked = threading.Event()

    def slow():
        yield "a"
        assert asked.wait(30)
        yield "b"

    made = chunks(slow(), first=100, size=100)
    assert next(made) == ["a"]
    asked.set()
    assert next(made) == ["b"]
    assert next(made, None) is None


def test_an_error_comes_after_the_lines_before_it():
    made = chunks(read_lines(io.BytesIO(b"a\nb\n\xff\n")), first=8, size=8)
    assert next(made) == ["a", "b"]
    with pytest.raises(InputError, match="line 3"):
        next(made)


def test_texts_are_written_in_order_and_as_soon_as_they_can_be():
    streams = io.StringIO(), io.StringIO()
    writer = InOrder(streams, [("0\n", "z\n"), None, ("2\n", "x\n"), None, None])
    assert [stream.getvalue() for stream in streams] == ["0\n", "z\n"]
    writer.put(3, ("3\n", "w\n"))
    assert writer.written == 1
    writer.put(1, ("1\n", "y\n"))
    assert streams[0].getvalue() == "0\n1\n2\n3\n" and streams[1].getvalue() == "z\ny\nx\nw\n"
    writer.put(4, ("4\n", ""))
    assert writer.written == 5


def test_a_file_is_replaced_when_all_went_well_and_only_then(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), open_output(str(path)) as out:
        out.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    with open_output(str(path)) as out:
        out.write("é\n")
        assert path.read_text() == "before"
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    with open_output(str(pipe)) as out:
        out.write("a\n")
    reader.join(30)
    assert read == ["a\n"] and pipe.is_fifo()


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link", tmp_path / "there" / "out.txt"
    link.symlink_to(target)
    for text in ("a", "b"):
        with open_output(str(link)) as out:
            out.write(text)
        assert target.read_text() == text and link.is_symlink()
    assert os.listdir(target.parent) == ["out.txt"]


@pytest.mark.parametrize("name", [".", "absent/out.txt"])
def test_a_file_that_cannot_be_written_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="can't write"), open_output(str(tmp_path / name)):
        raise AssertionError


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match="--input: can't read"), open_input(str(path)):
            raise AssertionError


FILES = {
    "gzip": gzip.compress(b"a\n"),
    "bzip2": bz2.compress(b"a\n"),
    "xz": lzma.compress(b"a\n"),
    "UTF-16": "one line\nanother\n".encode("utf-16"),
    "UTF-16, big": "\ufeffone line\nanother\n".encode("utf-16-be"),
    "UTF-16, no mark": "one line\nanother\n".encode("utf-16-le"),
    "Excel": b"PK\x03\x04\x14\0\x06\0\x08\0\0\0!\0[Content_Types].xml",
    "old Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(20),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_text_is_called_what_it_looks_like(kind, tmp_path):
    path = tmp_path / "input"
    path.write_bytes(FILES[kind])
    said = f"looks like {kind.partition(',')[0]}"
    if kind not in ("gzip", "xz"):  # a file of these is unpacked, a stream isn't
        with pytest.raises(InputError, match=said):
            list(read_lines(path))
    with path.open("rb") as stream, pytest.raises(InputError, match=said):
        list(read_lines(stream))


def test_a_full_disk_names_the_output():
    with pytest.raises(OSError, match="/dev/full"), open_output("/dev/full") as stream:
        stream.write("text")
        stream.flush()


def test_an_output_without_room_for_its_partial_name_says_so(tmp_path):
    name = tmp_path / ("a" * 250)
    with pytest.raises(InputError, match=r"\.partial, which becomes"), open_output(str(name)):
        pass
