import hashlib

import given_data
import pytest
import serving

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets import pronalsyl, raw_files
from bahdanau_jax.data.datasets.pronalsyl import Entry

TRAIN = b"A\tAH\nB\tB IY \n\nA\tEY\nC\tS IY\n"
REF = b"D\tD IY\tD\n"


@pytest.fixture(autouse=True)
def _no_way_but_those_of_a_test(monkeypatch):
    monkeypatch.delenv(raw_files.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def sounds(directory):
    return Corpus(DataConfig("tfds:pronalsyl", "word", "pronunciations", str(directory)))


def test_it_is_downloaded_and_words_are_divided_by_their_hash(tmp_path, monkeypatch):
    files = {"g014b2b.train": TRAIN, "g014b2b.ref": REF}
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(pronalsyl, "SHA256", sha256)
    monkeypatch.setattr(pronalsyl, "DEV_WORDS", 1)
    with serving.serving(files) as served:
        monkeypatch.setattr(pronalsyl, "ADDRESS", served.address)
        corpus = sounds(tmp_path)
        sounds(tmp_path)
    assert served.asked == list(files)
    seen = {
        split: [(each.source, each.references) for each in corpus.examples(split)]
        for split in corpus.splits
    }
    assert seen == {
        "train": [("B", ("B IY",)), ("C", ("S IY",))],
        "dev": [("A", ("AH", "EY"))],
        "test": [("D", ("D IY", "D"))],
    }


def test_the_development_words_are_those_with_the_smallest_hash_in_their_own_order():
    entries = [Entry(str(number), ("W",)) for number in range(1000)]
    train, dev = pronalsyl.divide(entries, 100)
    assert [entry.word for entry in dev] == sorted(entry.word for entry in dev)
    assert len(dev) == 100
    assert sorted(train + dev) == sorted(entries)
    hashes = [
        [hashlib.sha256(entry.word.encode()).hexdigest() for entry in side] for side in (dev, train)
    ]
    assert max(hashes[0]) < min(hashes[1])


@pytest.fixture
def tables(monkeypatch):
    folder = given_data.folder("cmudict-pronalsyl")
    if not (folder / "train.tsv").is_file():
        pytest.skip(f"{folder} has no tables")
    monkeypatch.setenv(raw_files.VARIABLE, str(folder.parent))
    return folder


def test_the_real_words_are_those_that_the_tables_give(tmp_path, tables):
    plain, corpus = Corpus(DataConfig(f"tsv:{tables}")), sounds(tmp_path)
    assert corpus.splits == plain.splits == ("train", "dev", "test")
    for split in plain.splits:
        assert corpus.fingerprint(split) == plain.fingerprint(split)


def test_dividing_the_real_words_gives_the_real_tables(tables):
    train, dev = (
        pronalsyl.table((tables / f"{split}.tsv").read_text().split("\n"))
        for split in ("train", "dev")
    )
    # The training list as it is upstream, but for where the development words stand in it.
    whole = [Entry(word, (each,)) for word, pronunciations in dev for each in pronunciations]
    whole += train
    assert len(whole) == 113_438
    assert pronalsyl.divide(whole, pronalsyl.DEV_WORDS) == (train, dev)
