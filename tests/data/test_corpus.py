import itertools
import tracemalloc
import unicodedata

import given_data
import pytest
from parallel_text import text, tsv

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus, Example, normalize
from bahdanau_jax.errors import InputError

PAIR = {"train.de": "eins\nzwei\n", "train.en": "one\ntwo\n"}


def test_text_files_give_one_example_a_line(folder):
    corpus = text(folder(PAIR))
    assert corpus.splits == ("train",)
    assert list(corpus.examples("train")) == [Example("eins", ("one",)), Example("zwei", ("two",))]
    assert list(corpus.pairs()) == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize("dev", ["dev", "val", "valid", "validation"])
@pytest.mark.parametrize("asked", ["dev", "val", "valid", "validation"])
def test_the_development_set_has_aliases(folder, dev, asked):
    directory = folder(PAIR | {f"{dev}.de": "drei\n", f"{dev}.en": "three\n"})
    assert text(directory).resolve_split(asked) == "dev"
    assert list(text(directory).examples(asked)) == [Example("drei", ("three",))]
    folder({"train.tsv": "a\tb\n", f"{dev}.tsv": "drei\tthree\n"})
    assert list(tsv(directory).examples(asked)) == [Example("drei", ("three",))]


def test_test_sets_keep_their_names(folder):
    names = ("test_2016_flickr", "test_2017_flickr")
    files = {f"{name}.{side}": f"{name}\n" for name in names for side in ("de", "en")}
    corpus = text(folder(PAIR | files))
    assert corpus.splits == ("train", *names)
    assert list(corpus.examples(names[1])) == [Example(names[1], (names[1],))]
    with pytest.raises(InputError, match="test_2016_flickr, test_2017_flickr"):
        corpus.resolve_split("test")


def test_test_means_the_only_test_set_or_the_one_so_called(folder):
    one = {"test_2016.de": "a\n", "test_2016.en": "b\n"}
    directory = folder(PAIR | one)
    assert text(directory).resolve_split("test") == "test_2016"
    folder({"test.de": "c\n", "test.en": "d\n"})
    assert text(directory).resolve_split("test") == "test"


def test_an_unknown_split_lists_those_there_are(folder):
    corpus = text(folder(PAIR))
    with pytest.raises(InputError, match="its splits: train"):
        corpus.resolve_split("dev")
    with pytest.raises(InputError, match="no split test_2018"):
        list(corpus.examples("test_2018"))


def test_tsv_columns_after_the_second_are_further_references(folder):
    rows = "A\tEY\tAH\nB\tB IY\n"
    corpus = tsv(folder({"train.tsv": rows, "dev.tsv": rows, "test_a.tsv": rows}))
    assert corpus.splits == ("train", "dev", "test_a")
    assert list(corpus.examples("dev")) == [
        Example("A", ("EY", "AH")),
        Example("B", ("B IY",)),
    ]
    assert list(corpus.pairs()) == [("A", "EY"), ("A", "AH"), ("B", "B IY")]


def test_empty_sides_leave_training_and_are_counted_but_keep_their_line_elsewhere(folder):
    sides = {"de": "a\n\nc\n \ne\n", "en": "A\nB\n\nD\nE\n"}
    files = {f"{split}.{side}": sides[side] for side in sides for split in ("train", "dev")}
    corpus = text(folder(files))
    pairs = corpus.pairs()
    assert list(pairs) == [("a", "A"), ("e", "E")]
    assert pairs.empty == 3
    assert [example.source for example in corpus.examples("dev")] == ["a", "", "c", " ", "e"]
    assert [example.references for example in corpus.examples("dev")] == [
        ("A",),
        ("B",),
        ("",),
        ("D",),
        ("E",),
    ]


def test_empty_rows_of_a_tsv_keep_their_line(folder):
    corpus = tsv(folder({"train.tsv": "a\tb\n\nc\td\n"}))
    assert [example.source for example in corpus.examples("train")] == ["a", "", "c"]
    assert len(list(corpus.pairs())) == 2


def test_training_pairs_start_afresh_each_time(folder):
    pairs = text(folder(PAIR)).pairs()
    assert list(pairs) == list(pairs) == [("eins", "one"), ("zwei", "two")]
    assert next(iter(pairs)) == next(iter(pairs))


def test_text_is_composed_and_lower_cased_on_demand(folder):
    decomposed = unicodedata.normalize("NFD", "Über")
    directory = folder({"train.de": f"{decomposed}\n", "train.en": "OVER\n"})
    assert list(text(directory).pairs()) == [("Über", "OVER")]
    assert list(text(directory, lowercase=True).pairs()) == [("über", "over")]


def test_normalised_text_is_composed_on_one_line_and_stays_as_it_is():
    for raw in ("Ä\nb", "a\r\nb", "a\rb", "İ", "e\u0301"):
        for lowercase in (False, True):
            done = normalize(raw, lowercase)
            assert unicodedata.is_normalized("NFC", done)
            assert "\n" not in done and "\r" not in done
            assert normalize(done, lowercase) == done
    assert normalize("a\r\nb") == "a b"


@pytest.mark.parametrize("content", ["", "\n\n", " \n"])
def test_a_training_set_without_a_pair_is_refused(folder, content):
    corpus = text(folder({"train.de": content, "train.en": content}))
    with pytest.raises(InputError, match="no pair with text on both sides"):
        list(corpus.pairs())


@pytest.mark.parametrize("source", ["", "xml:x", "/data", "text", "TEXT:x"])
def test_an_unknown_kind_of_source_lists_the_known_ones(source):
    with pytest.raises(InputError, match=r"text:DIR, tsv:DIR, .*tfds:NAME|names no data"):
        Corpus(DataConfig(source=source))


def test_fingerprints_stand_for_the_normalised_text(folder, tmp_path):
    first = text(folder(PAIR | {"test.de": "eins\nzwei\n", "test.en": "one\ntwo\n"}))
    assert first.fingerprint("train") == first.fingerprint("test")
    assert len(first.fingerprint("train")) == 16
    written_otherwise = {"train.de": "eins\r\nzwei", "train.en": b"\xef\xbb\xbfone\ntwo\n"}
    assert text(folder(written_otherwise)).fingerprint("train") == first.fingerprint("test")
    as_tsv = tsv(folder({"train.tsv": "eins\tone\nzwei\ttwo\n"}))
    assert as_tsv.fingerprint("train") == first.fingerprint("test")


def test_fingerprints_tell_any_change_apart(folder):
    rows = ["A\tb\n", "a\tb\n", "a\tb\nc\td\n", "c\td\na\tb\n", "a\tbc\td\n", "a\tb c\td\n"]
    rows += ["a\tb\tc\td\n", "a b\tc\td\n"]
    prints = [tsv(folder({"train.tsv": row})).fingerprint("train") for row in rows]
    assert len(set(prints)) == len(rows)
    lower = tsv(folder({"train.tsv": rows[0]}), lowercase=True).fingerprint("train")
    assert lower == prints[1]


def test_reading_holds_a_line_at_a_time(folder):
    lines = 10_000
    directory = folder({"train.de": "ein Satz\n" * lines, "train.en": "a sentence\n" * lines})
    corpus = text(directory)
    tracemalloc.start()
    try:
        assert sum(1 for _ in corpus.pairs()) == lines
        corpus.fingerprint("train")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20  # bytes; as a list the pairs would take twice as much


def test_multi30k_reads_as_its_description_says():
    corpus = text(given_data.folder("multi30k"))
    assert corpus.splits == ("train", "dev", "test_2016_flickr")
    counts = {split: sum(1 for _ in corpus.examples(split)) for split in corpus.splits}
    assert counts == {"train": 29_000, "dev": 1_014, "test_2016_flickr": 1_000}


def test_the_pronalsyl_split_reads_as_its_description_says():
    corpus = tsv(given_data.folder("cmudict-pronalsyl"))
    assert sum(1 for _ in corpus.pairs()) == 110_611
    assert sum(1 for _ in corpus.examples("dev")) == 2_670
    tests = list(corpus.examples("test"))
    assert len(tests) == 12_000
    assert len(list(itertools.chain(*(example.references for example in tests)))) == 12_753
