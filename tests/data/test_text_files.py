import gzip
import lzma
import os
import threading

import pytest
from parallel_text import text, tsv

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import pipeline
from bahdanau_jax.data.corpus import Corpus, Example
from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import read_pairs


def feed(path, content):
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=(content,), daemon=True).start()


def test_pairs_are_read_from_pipes_which_open_only_once(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    feed(first, "a\nb\n")
    feed(second, "c\nd\n")
    assert list(read_pairs(first, second)) == [("a", "c"), ("b", "d")]


@pytest.mark.parametrize("lines", [("a\nb\n", "c\n"), ("a\n", "c\nd\n")])
def test_a_pipe_that_ends_early_is_refused_with_the_lines_it_had(lines, tmp_path):
    short = ("second", "first")[len(lines[0]) < len(lines[1])]
    first, second = tmp_path / "first", tmp_path / "second"
    feed(first, lines[0])
    feed(second, lines[1])
    with pytest.raises(InputError, match=f"{short} has 1 line, but .* has more"):
        list(read_pairs(first, second))


PAIR = {"train.de": "eins\nzwei\n", "train.en": "one\ntwo\n"}


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("data.source", DataConfig("text:~no such user/x", "de", "en")),
        ("data.source", DataConfig("tsv:~no such user/x", "de", "en")),
        ("data.source", DataConfig("jsonl:~no such user/x", "de", "en")),
        ("data.directory", DataConfig("tfds:reverse", "source", "target", "~no such user/x")),
    ],
)
def test_a_home_directory_that_is_not_known_is_refused(field, data):
    with pytest.raises(
        InputError, match=rf"^{field}: ~no such user/x begins with a home directory that"
    ):
        Corpus(data)


def test_languages_choose_the_sides(folder):
    files = PAIR | {"train.fr": "un\ndeux\n"}
    corpus = text(folder(files), source_language="fr", target_language="de")
    assert list(corpus.pairs()) == [("un", "eins"), ("deux", "zwei")]


def test_a_test_set_of_another_language_pair_is_no_split(folder):
    corpus = text(folder(PAIR | {"test_2015.en": "b\n", "test_2015.fr": "c\n"}))
    assert corpus.splits == ("train",)


def test_a_row_without_a_tab_is_named(folder):
    corpus = tsv(folder({"train.tsv": "a\tb\nc d\n"}))
    with pytest.raises(InputError, match=r"train\.tsv, line 2: no tab"):
        list(corpus.pairs())


def test_a_stray_tab_is_no_reference(folder):
    corpus = tsv(folder({"train.tsv": "a\tb\t\nc\t\t\nd\t\te\n"}))
    assert list(corpus.examples("train")) == [
        Example("a", ("b",)),
        Example("c", ("",)),
        Example("d", ("e",)),
    ]


def test_bom_and_carriage_returns_are_no_text(folder):
    files = {"train.de": b"\xef\xbb\xbfeins\r\nzwei\xef\xbb\xbf\r\n", "train.en": b"one\r\ntwo\n"}
    assert list(text(folder(files)).pairs()) == [("eins", "one"), ("zwei\ufeff", "two")]


def test_a_last_line_needs_no_line_feed(folder):
    corpus = text(folder({"train.de": "eins\nzwei", "train.en": "one\ntwo\n"}))
    assert len(list(corpus.pairs())) == 2


@pytest.mark.parametrize(
    "mark", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85"]
)
def test_only_a_line_feed_ends_a_line(folder, mark):
    assert len(f"a{mark}b".splitlines()) == 2
    source = f"ein{mark}s\nzwei\n"
    corpus = text(folder({"train.de": source, "train.en": "one\ntwo\n"}))
    assert list(corpus.pairs()) == [(f"ein{mark}s", "one"), ("zwei", "two")]
    corpus = tsv(folder({"train.tsv": f"a{mark}b\tc\n"}))
    assert list(corpus.pairs()) == [(f"a{mark}b", "c")]


def test_different_numbers_of_lines_name_both_files_and_counts(folder):
    corpus = text(folder({"train.de": "a\nb\nc\n", "train.en": "a\nb\n"}))
    with pytest.raises(InputError, match=r"train\.de has 3 lines, but .*train\.en has 2"):
        next(iter(corpus.pairs()))


def test_what_is_not_utf8_is_named_with_its_line(folder):
    corpus = text(folder({"train.de": b"a\nb\xff\n", "train.en": "a\nb\n"}))
    with pytest.raises(InputError, match=r"train\.de, line 2: not UTF-8"):
        list(corpus.pairs())


def test_a_nul_byte_is_named_with_its_line(folder):
    corpus = text(folder({"train.de": b"a\nb\0\n", "train.en": "a\nb\n"}))
    with pytest.raises(InputError, match=r"train\.de, line 2: a NUL byte"):
        list(corpus.pairs())


def test_utf16_is_refused_at_its_first_line(folder):
    corpus = text(folder({"train.de": "a\n".encode("utf-16"), "train.en": "a\nb"}))
    with pytest.raises(InputError, match=r"train\.de: no text, but .*UTF-16"):
        list(corpus.pairs())


@pytest.mark.parametrize("kind", ["text", "tsv"])
def test_a_missing_directory_is_named(tmp_path, kind):
    with pytest.raises(InputError, match="nowhere is no directory"):
        Corpus(DataConfig(source=f"{kind}:{tmp_path}/nowhere", source_language="a"))


@pytest.mark.parametrize("language", ["nl", ""])
def test_an_unknown_language_lists_those_there_are(folder, language):
    directory = folder(PAIR | {"README.md": "x", "notes.txt": "x"})
    with pytest.raises(InputError, match=r"data\.target_language: .*languages there: de, en$"):
        text(directory, target_language=language)


def test_a_directory_without_corpus_says_so(folder):
    directory = folder({"README.md": "x"})
    with pytest.raises(InputError, match=r"none \(no file is called train\.LANGUAGE\)"):
        text(directory)
    with pytest.raises(InputError, match=r"has no train\.tsv"):
        tsv(directory)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_missing_side_is_named(folder, split):
    directory = folder(PAIR | {"dev.de": "drei\n", "dev.en": "three\n"})
    (directory / f"{split}.en").unlink()
    with pytest.raises(InputError, match=rf"{split}\.en is missing"):
        text(directory)


def test_two_development_sets_are_refused(folder):
    with pytest.raises(InputError, match="both dev and val"):
        tsv(folder({"train.tsv": "a\tb\n", "dev.tsv": "a\tb\n", "val.tsv": "a\tb\n"}))


def test_a_packed_side_is_the_same_text_with_the_same_ids(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "cache_directory", lambda: tmp_path / "cache")
    plain = folder(PAIR)
    (tmp_path / "packed").mkdir()
    for name, pack in (("train.de", gzip.compress), ("train.en", lzma.compress)):
        ending = {"train.de": ".gz", "train.en": ".xz"}[name]
        (tmp_path / "packed" / (name + ending)).write_bytes(pack((plain / name).read_bytes()))
    stores = []
    for directory in (plain, tmp_path / "packed"):
        config = DataConfig(f"text:{directory}", "de", "en")
        config.vocabulary.kind, config.vocabulary.size = "characters", 0
        data = pipeline.open_data(config, None, print)
        data.training_store(print)
        stores.append((data.fingerprints("train"), sorted((tmp_path / "cache/tokens").iterdir())))
    assert stores[0] == stores[1]  # the second found the store of the first under its name


def test_a_file_that_is_there_packed_and_plain_is_refused(folder):
    with pytest.raises(InputError, match=r"both train\.en and train\.en\.gz; keep one"):
        text(folder(PAIR | {"train.en.gz": gzip.compress(b"a\n")}))
