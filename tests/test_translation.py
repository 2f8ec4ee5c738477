import copy
import dataclasses
import io
from pathlib import Path

import pytest
import tiny

from bahdanau_jax import translation
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import Evaluator
from bahdanau_jax.run import make_model, open_run
from bahdanau_jax.translation import read_lines, translate

TEXT = b"fed\n\ncafe\n  \nabcdef\nfed\nzz\nf\n"


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


def translated(run, text):
    out = io.StringIO()
    translate(run, io.BytesIO(text), out)
    return out.getvalue()


@pytest.fixture(scope="module")
def lines(run):
    return translated(run, TEXT).split("\n")


def test_each_line_gives_a_line_and_an_empty_one_an_empty_one(lines):
    assert len(lines) == 9
    assert lines[-1] == ""  # the last line has its end
    assert [bool(line) for line in lines[:8]] == [True, False, True, False, True, True, True, True]
    assert lines[0] == lines[5]
    assert set(lines[0].split()) <= set("ABCDEF")


def test_what_it_writes_is_what_evaluation_decodes(run, lines, trained):
    outputs = (trained.directory / "outputs" / "dev.txt").read_text().splitlines()
    source = (tiny_directory(trained) / "dev.tsv").read_text().splitlines()
    words = "".join(line.split("\t")[0] + "\n" for line in source)
    assert translated(run, words.encode()).splitlines() == outputs


def tiny_directory(trained):
    return Path(trained.config.data.source.removeprefix("tsv:"))


@pytest.mark.parametrize("size", [1, 3])
def test_the_batch_changes_nothing(run, lines, size):
    config = copy.deepcopy(run.config)
    config.decode.batch_size = size
    evaluator = Evaluator(make_model(config, run.vocabularies), config, run.vocabularies)
    other = dataclasses.replace(run, config=config, evaluator=evaluator)
    assert translated(other, TEXT).split("\n") == lines


def test_the_lines_read_together_change_nothing(run, lines, monkeypatch):
    monkeypatch.setattr(translation, "CHUNK", 3)
    assert translated(run, TEXT).split("\n") == lines


def test_a_last_line_without_an_end_counts_and_no_line_gives_none(run, lines):
    assert translated(run, TEXT.removesuffix(b"\n")).split("\n") == lines
    assert translated(run, b"") == ""
    assert translated(run, b"\n") == "\n"
    assert translated(run, b" \n\n") == "\n\n"


def test_windows_line_ends_and_a_byte_order_mark_are_no_text(run, lines):
    text = b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n")
    assert translated(run, text).split("\n") == lines


def test_other_forms_of_line_ends_within_a_line_divide_nothing(run):
    assert translated(run, "fe\u2028d\x0bf\x85\n".encode()).count("\n") == 1
    assert translated(run, b"fed\rfed\n").count("\n") == 1


def test_invalid_utf_8_names_the_line_and_what_came_before_it_is_written(run, monkeypatch):
    monkeypatch.setattr(translation, "CHUNK", 2)
    out = io.StringIO()
    with pytest.raises(InputError, match=r"input line 4 is not valid UTF-8 \(byte 2\)"):
        translate(run, io.BytesIO(b"fed\n\nf\nf\xe9d\nfed\n"), out)
    assert out.getvalue().count("\n") == 2


def test_longer_lines_are_counted_and_translated_whole(run, capsys):
    word = "abcdef" * 2
    assert len(word) > tiny.MAX_LENGTH
    whole = translated(run, f"{word}\nfed\n{word}a\n".encode()).splitlines()
    assert f"2 lines are longer than the {tiny.MAX_LENGTH} tokens" in capsys.readouterr().err
    cut = translated(run, word[: tiny.MAX_LENGTH].encode())
    assert whole[0] + "\n" != cut
    assert "longer" not in capsys.readouterr().err


def test_text_is_normalised_as_in_training(run):
    config = copy.deepcopy(run.config)
    config.data.lowercase = True
    lower = dataclasses.replace(run, config=config)
    assert translated(lower, b"FED\n") == translated(run, b"fed\n")


def test_lines_are_read_as_they_come():
    lines = read_lines(io.BytesIO(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\n\xff\n"))
    assert next(lines) == "a"
    assert next(lines) == "\ufeffb"  # a mark is one at the beginning only
    with pytest.raises(InputError, match="line 3"):
        next(lines)
