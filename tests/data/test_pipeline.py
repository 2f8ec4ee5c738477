import json
from pathlib import Path

import numpy as np
import pytest
import tiny

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.setup import cache_directory
from bahdanau_jax.special_ids import EOS, PAD, UNK


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tiny.config(tiny.write_corpus(tmp_path / "corpus")).data


def files(directory):
    return {path: path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()}


def open_saved(config, directory, say):
    """Opens the corpus with the vocabularies that lie in a workdir, or with new ones."""
    return open_data(config, Vocabularies.load_saved(directory / "vocabulary"), say)


def ids(fill, store, width=20):
    rows = fill(np.arange(len(store)), len(store), width)
    return [row[row != PAD].tolist() for row in rows]


def test_what_can_be_made_again_lies_in_the_users_cache_directory(config, tmp_path):
    assert cache_directory() == tmp_path / "cache" / "bahdanau_jax"


def test_a_new_run_builds_its_vocabularies_from_the_training_split_and_keeps_them(config, tmp_path):
    said = []
    data = open_saved(config, tmp_path, said.append)
    assert not (tmp_path / "vocabulary").exists()  # the loop saves them when all has been read
    data.vocabularies.save(tmp_path / "vocabulary")
    # Six letters each, and the four special entries; the capitals stand with spaces between.
    assert (data.vocabularies.source.size, data.vocabularies.target.size) == (10, 10)
    assert len(data.vocabularies.source.encode("fed")) == 3
    assert len(data.vocabularies.target.encode("F E D")) == 3
    assert data.vocabularies.source.encode("z") == [UNK]
    assert said[0] == f"reading {config.source}"
    assert any("building the vocabularies" in text for text in said)

    written = files(tmp_path / "vocabulary")
    said.clear()
    again = open_saved(config, tmp_path, said.append)
    assert again.vocabularies.fingerprint == data.vocabularies.fingerprint
    assert files(tmp_path / "vocabulary") == written
    assert not any("building" in text for text in said)


def test_a_run_keeps_its_vocabularies_when_the_text_changes(config, tmp_path):
    data = open_saved(config, tmp_path, lambda _: None)
    data.vocabularies.save(tmp_path / "vocabulary")
    before = data.fingerprints("train")
    path = Path(config.source.removeprefix("tsv:")) / "train.tsv"
    path.write_text("xyz\tX Y Z\n" * 9)
    after = open_saved(config, tmp_path, lambda _: None)
    assert after.fingerprints("train")["data/train"] != before["data/train"]
    assert after.fingerprints()["vocabularies"] == before["vocabularies"]
    assert ids(after.training_store(lambda _: None).sources, range(9)) == [[UNK] * 3 + [EOS]] * 9


def test_the_training_text_is_turned_into_ids_once(config, tmp_path):
    data = open_saved(config, tmp_path, lambda _: None)
    data.vocabularies.save(tmp_path / "vocabulary")
    said = []
    store = data.training_store(said.append)
    assert len(store) == tiny.PAIRS + tiny.LONGER
    assert said == [
        "turning the training text into ids",
        f"left out for an empty side: {tiny.EMPTY} training pair",
    ]
    encode = data.vocabularies.source.encode
    assert ids(store.sources, store) == [[*encode(s), EOS] for s, _ in data.corpus.pairs()]
    encode = data.vocabularies.target.encode
    assert ids(store.targets, store) == [[*encode(t), EOS] for _, t in data.corpus.pairs()]

    made = files(cache_directory())
    assert made
    said.clear()
    again = open_data(
        config, Vocabularies.load_saved(tmp_path / "vocabulary"), said.append
    ).training_store(said.append)
    assert said == [f"reading {config.source}"]
    assert ids(again.sources, again) == ids(store.sources, store)
    assert files(cache_directory()) == made


def test_other_text_and_other_vocabularies_have_stores_of_their_own(config, tmp_path):
    def store(name):
        said = []
        data = open_data(config, None, lambda _: None)
        return data.training_store(said.append), any("turning" in text for text in said)

    first, made = store("first")
    assert made
    assert not store("same")[1]
    config.vocabulary.kind = "words"
    words, made = store("words")
    assert made
    assert set(words.source_lengths.tolist()) == {2}
    config.vocabulary.kind = "characters"
    path = Path(config.source.removeprefix("tsv:")) / "train.tsv"
    path.write_text("a\tA\n" + path.read_text())
    longer, made = store("longer")
    assert made
    assert len(longer) == len(first) + 1


def test_a_damaged_store_is_made_anew(config, tmp_path):
    data = open_saved(config, tmp_path, lambda _: None)
    whole = ids(data.training_store(lambda _: None).sources, range(tiny.PAIRS))
    for path in cache_directory().rglob("source_ids.npy"):
        path.write_bytes(path.read_bytes()[:-3])
    said = []
    assert ids(data.training_store(said.append).sources, range(tiny.PAIRS)) == whole
    assert "is damaged (source_ids.npy isn't what was written) and is made anew" in said[0]
    assert said[1] == "turning the training text into ids"


@pytest.mark.parametrize("split", ["train", "dev"])
def test_text_that_changes_between_its_fingerprint_and_its_ids_is_told(config, tmp_path, split):
    data = open_saved(config, tmp_path, lambda _: None)
    data.fingerprints(split)
    path = next((tmp_path / "corpus").glob(f"{split}.*"))
    path.write_text(path.read_text().replace("a", "b"))
    with pytest.raises(InputError, match=f"the text of {split} changed while it was read"):
        if split == "train":
            data.training_store(lambda _: None)
        else:
            data.evaluation_split(split)
    assert not list(cache_directory().glob("tokens/*"))
    open_saved(config, tmp_path, lambda _: None).training_store(lambda _: None)


def test_an_evaluation_split_has_a_pair_a_reference_and_a_source_an_example(config, tmp_path):
    data = open_saved(config, tmp_path, lambda _: None)
    split = data.evaluation_split("validation")
    assert split.name == "dev"
    assert len(split.examples) == len(split.sources) == tiny.DEV
    assert len(split.pairs) == tiny.DEV + 1  # one example has two references
    assert [len(e.references) for e in split.examples] == [1] * (tiny.DEV - 1) + [2]
    encode = data.vocabularies.source.encode
    sources = [[*encode(example.source), EOS] for example in split.examples]
    assert ids(split.sources.sources, split.sources) == sources
    assert ids(split.sources.targets, split.sources) == [[EOS]] * tiny.DEV
    assert ids(split.pairs.sources, split.pairs) == [*sources, sources[-1]]
    encode = data.vocabularies.target.encode
    references = [r for example in split.examples for r in example.references]
    assert ids(split.pairs.targets, split.pairs) == [[*encode(r), EOS] for r in references]
    # Never cut: the one that is longer than data.max_length is there whole.
    assert split.pairs.source_lengths.max() == tiny.MAX_LENGTH + 4 + 1


def test_a_source_on_several_lines_of_a_table_is_told(config, tmp_path, capsys):
    path = Path(config.source.removeprefix("tsv:")) / "dev.tsv"
    data = open_saved(config, tmp_path, lambda _: None)
    capsys.readouterr()
    path.write_text("ab\tA B\nab\tA C\nc\tC\nab\tB B\n")
    data.evaluation_split("dev")
    assert "warning: 2 lines of dev with the source of another" in capsys.readouterr().err
    path.write_text("ab\tA B\tA C\tB B\nc\tC\n")
    open_saved(config, tmp_path, lambda _: None).evaluation_split("dev")
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_source_in_several_records_is_told(kind, config, tmp_path, capsys):
    def write(split, pairs):
        rows = [f'{{"s": "{s}", "t": {json.dumps(t)}}}' for s, t in pairs]
        if kind == "csv":
            rows = ["s,t", *(f"{s},{t}" for s, t in pairs)]
        (tmp_path / f"{split}.{kind}").write_text("\n".join(rows) + "\n")

    config.source, config.source_language, config.target_language = f"{kind}:{tmp_path}", "s", "t"
    write("train", [("ab", "A B"), ("c", "C")])
    write("dev", [("ab", "A B"), ("c", "C"), ("ab", "A C")])
    data = open_saved(config, tmp_path, lambda _: None)
    capsys.readouterr()
    data.evaluation_split("dev")
    said = capsys.readouterr().err
    assert "warning: 1 record of dev with the source of another" in said
    assert "in one record" in said and "as a list" in said
    write("dev", [("ab", "A B" if kind == "csv" else ["A B", "A C"]), ("c", "C")])
    open_saved(config, tmp_path, lambda _: None).evaluation_split("dev")
    assert "warning" not in capsys.readouterr().err


def test_a_split_that_is_not_there_names_those_that_are(config, tmp_path):
    data = open_saved(config, tmp_path, lambda _: None)
    with pytest.raises(InputError, match="no split newstest; its splits: train, dev, test"):
        data.evaluation_split("newstest")


def test_an_empty_split_is_refused(config, tmp_path):
    (Path(config.source.removeprefix("tsv:")) / "dev.tsv").write_text("")
    data = open_saved(config, tmp_path, lambda _: None)
    with pytest.raises(InputError, match="the split dev is empty"):
        data.evaluation_split("dev")


def test_lower_case_reaches_vocabularies_stores_and_splits(config, tmp_path):
    config.lowercase = True
    data = open_saved(config, tmp_path, lambda _: None)
    assert UNK not in data.vocabularies.target.encode("f e d")
    assert data.vocabularies.target.encode("F E D") == [UNK] * 3
    split = data.evaluation_split("test")
    assert all(r == r.lower() for e in split.examples for r in e.references)
    assert all(UNK not in row for row in ids(split.pairs.targets, split.pairs))


def test_a_joint_vocabulary_is_one(config, tmp_path):
    config.vocabulary.target_kind, config.vocabulary.joint = "", True
    made = open_data(
        config, Vocabularies.load_saved(tmp_path / "vocabulary"), lambda _: None
    ).vocabularies
    made.save(tmp_path / "vocabulary")
    assert made.joint
    assert made.source.size == 4 + 6 + 6 + 1  # both cases and the space
    assert open_data(
        config, Vocabularies.load_saved(tmp_path / "vocabulary"), lambda _: None
    ).vocabularies.joint


def test_a_source_that_is_not_there_makes_no_vocabulary(tmp_path):
    config = DataConfig(source=f"tsv:{tmp_path / 'nowhere'}")
    with pytest.raises(InputError, match="is no directory"):
        open_saved(config, tmp_path, lambda _: None)
    assert not (tmp_path / "vocabulary").exists()
