import pathlib
import shutil
import signal
import sys

import numpy as np
import path_damages
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.testing import mocking

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import tfds_source
from bahdanau_jax.data.corpus import Corpus, Example
from bahdanau_jax.data.datasets.synthetic import Synthetic
from bahdanau_jax.errors import InputError

ROWS = {
    "train": [("ein Haus", "a house"), ("", "nothing"), ("Über\nuns", "about us")],
    "validation": [("zwei", "two")],
    "test": [("drei", "three"), ("vier", "four")],
}


class TinyPairs(tfds.core.GeneratorBasedBuilder):
    """Three sentence pairs as a translation set."""

    VERSION = tfds.core.Version("1.0.0")
    ROWS = ROWS

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.Translation(["de", "en"]),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(rows) for split, rows in self.ROWS.items()}

    def _generate_examples(self, rows):
        for key, (de, en) in enumerate(rows):
            yield key, {"de": de, "en": en}


class TinyMixed(tfds.core.GeneratorBasedBuilder):
    """Features that aren't all text, and a test set with references."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        text = tfds.features.Text()
        features = {"number": tfds.features.Scalar(dtype=np.int64), "word": text}
        features |= {"sounds": tfds.features.Sequence(text), "latin": text, "binary": text}
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples() for split in ("train", "test_a", "test_b")}

    def _generate_examples(self):
        no_text = {"number": 7, "latin": b"\xff", "binary": "\0"}
        yield 0, {"word": "a", "sounds": ["EY", "AH"], **no_text}
        yield 1, {"word": "b", "sounds": [], **no_text}


def prepare(builder, directory, file_format="array_record"):
    builder(data_dir=directory, file_format=file_format).download_and_prepare()
    return str(directory)


def tiny(directory, source="tfds:tiny_pairs", source_language="de", target_language="en", **more):
    return Corpus(DataConfig(source, source_language, target_language, str(directory), **more))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    prepare(TinyPairs, directory)
    prepare(TinyMixed, directory)
    return str(directory)


def test_a_translation_set_reads_without_tensorflow(prepared):
    was_imported = "tensorflow" in sys.modules
    corpus = tiny(prepared)
    assert corpus.splits == ("train", "dev", "test")
    assert list(corpus.examples("train")) == [
        Example("ein Haus", ("a house",)),
        Example("", ("nothing",)),
        Example("Über uns", ("about us",)),
    ]
    assert list(corpus.examples("validation")) == [Example("zwei", ("two",))]
    assert list(corpus.examples("test")) == [
        Example("drei", ("three",)),
        Example("vier", ("four",)),
    ]
    assert ("tensorflow" in sys.modules) == was_imported


def test_training_pairs_leave_out_empty_sides(prepared):
    pairs = tiny(prepared, lowercase=True).pairs()
    assert list(pairs) == [("ein haus", "a house"), ("über uns", "about us")]
    assert pairs.empty == 1


@pytest.mark.parametrize("block", [1, 2, 3])
def test_the_size_of_a_read_changes_nothing(prepared, monkeypatch, block):
    expected = list(tiny(prepared).examples("train"))
    monkeypatch.setattr(tfds_source, "_BLOCK", block)
    assert list(tiny(prepared).examples("train")) == expected


def test_an_older_version_is_read_from_its_files(prepared, tmp_path):
    old = tmp_path / "tiny_pairs" / "0.9.0"
    shutil.copytree(pathlib.Path(prepared) / "tiny_pairs" / "1.0.0", old)
    info = (old / "dataset_info.json").read_text()
    (old / "dataset_info.json").write_text(info.replace('"1.0.0"', '"0.9.0"'))
    assert next(tiny(tmp_path).examples("dev")) == Example("zwei", ("two",))


def test_features_choose_the_direction(prepared):
    corpus = tiny(prepared, source_language="en", target_language="de")
    assert next(corpus.examples("test")) == Example("three", ("drei",))


def test_the_fingerprint_is_that_of_the_same_text_in_files(prepared, tmp_path):
    for side, column in (("de", 0), ("en", 1)):
        lines = [row[column].replace("\n", " ") for row in ROWS["train"]]
        (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    files = Corpus(DataConfig(f"text:{tmp_path}", "de", "en"))
    assert files.fingerprint("train") == tiny(prepared).fingerprint("train")


def test_a_set_whose_builder_is_unknown_reads_from_its_files(prepared, tmp_path, monkeypatch):
    old = pathlib.Path(prepared) / "tiny_pairs"
    for version in ("1.0.0", "2.0.0"):
        new = tmp_path / "foreign_pairs" / "de_en" / version
        new.mkdir(parents=True)
        for file in (old / "1.0.0").iterdir():
            content = file.read_bytes().replace(b"tiny_pairs", b"foreign_pairs")
            content = content.replace(b'"version": "1.0.0"', f'"version": "{version}"'.encode())
            (new / file.name.replace("tiny_pairs", "foreign_pairs")).write_bytes(content)
    (tmp_path / "foreign_pairs" / "de_en" / "1.0.0" / "dataset_info.json").write_text("{}")
    monkeypatch.setattr(TinyPairs, "_generate_examples", None)  # nothing is generated again
    corpus = tiny(tmp_path, "tfds:foreign_pairs/de_en")  # the latest version
    assert next(corpus.examples("test")) == Example("drei", ("three",))


class MockRecords(list):
    # The mock's own data source forgets `self` here (TFDS 4.9.10).
    def __getitems__(self, keys):
        return [self[key] for key in keys]


def mock_records(builder, split, **options):
    del split, options
    made = mocking.SerializedRandomFakeGenerator(builder.info.features, num_examples=5)
    return MockRecords(made[index] for index in range(5))


@pytest.mark.parametrize("name", ["tiny_pairs", "tiny_mixed"])
def test_mock_data_takes_the_place_of_real_data(prepared, name):
    features = ("de", "en") if name == "tiny_pairs" else ("word", "sounds")
    with tfds.testing.mock_data(as_data_source_fn=mock_records, data_dir=prepared):
        examples = list(tiny("ignored", f"tfds:{name}", *features).examples("train"))
    assert len(examples) == 5
    assert len(set(examples)) > 1
    assert all(example.source and example.references for example in examples)


def test_a_sequence_holds_several_references(prepared):
    corpus = tiny(prepared, "tfds:tiny_mixed", "word", "sounds")
    assert list(corpus.examples("train")) == [Example("a", ("EY", "AH")), Example("b", ("",))]
    assert list(corpus.pairs()) == [("a", "EY"), ("a", "AH")]
    with pytest.raises(InputError, match="test_a, test_b"):
        corpus.resolve_split("test")


@pytest.mark.parametrize(
    ("feature", "complaint"),
    [
        ("number", "train example 0: numbers in place of text"),
        ("latin", "train example 0: .*utf-8"),
        ("binary", "train example 0: a NUL byte"),
        ("sounds", "train example 0: 2 sources"),
    ],
)
def test_a_feature_that_is_no_text_is_named(prepared, feature, complaint):
    corpus = tiny(prepared, "tfds:tiny_mixed", feature, "word")
    with pytest.raises(InputError, match=f"tfds:tiny_mixed, {complaint}"):
        list(corpus.examples("train"))


@pytest.mark.parametrize("language", ["fr", ""])
def test_an_unknown_feature_lists_those_there_are(prepared, language):
    with pytest.raises(InputError, match=r"data\.target_language: .*its features: de, en"):
        tiny(prepared, target_language=language)


def test_a_set_that_is_not_prepared_names_the_commands(tmp_path):
    for name in ("tiny_pairs", "ted_hrlr_translate/pt_to_en", "no_such_set", "Not a name!"):
        with pytest.raises(InputError) as caught:
            tiny(tmp_path, f"tfds:{name}")
        message = str(caught.value)
        assert "\n" not in message
        assert f"tfds:{name} is not prepared in {tmp_path}" in message
        assert 'pip install "bahdanau_jax[tensorflow]"' in message
        assert f"tfds.builder('{name}'" in message
        assert (
            f"data_dir='{tmp_path}', file_format='array_record').download_and_prepare()" in message
        )


def test_the_command_in_the_message_prepares_what_can_then_be_read(tmp_path):
    with pytest.raises(InputError) as caught:
        tiny(tmp_path)
    command = str(caught.value).split('python -c "')[1].rstrip('"')
    exec(command, {})
    assert next(tiny(tmp_path).examples("dev")) == Example("zwei", ("two",))


def test_another_file_format_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    prepare(TinyPairs, tmp_path, "parquet")
    with pytest.raises(InputError, match=r"not prepared as array_record.*set data\.directory"):
        tiny(tmp_path)


def test_a_version_that_a_data_set_of_the_project_has_not_is_refused():
    with pytest.raises(InputError, match=r"give tfds:reverse:1\.0\.0"):
        tfds_source.TfdsSource("reverse:9.9.9", "source", "target")


def flip(path, other):
    for file in path_damages.files_in(path):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)


DAMAGES = [path_damages.truncate, path_damages.zero, path_damages.delete, path_damages.directory]
DAMAGES += [path_damages.fifo, flip]


def read_damaged(open_corpus, root, name, how, whole):
    """Reads a set with one damage; returns the complaint, None if all is as it was."""
    shutil.copytree(whole, root)
    how(root / name, root)
    signal.alarm(60)
    try:
        corpus = open_corpus(root)
        read = {split: list(corpus.examples(split)) for split in corpus.splits}
    except InputError as error:
        return str(error)
    finally:
        signal.alarm(0)
        shutil.rmtree(root)
    assert read == {s: list(open_corpus(whole).examples(s)) for s in ("train", "dev", "test")}
    return None


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damage_of_what_is_prepared_is_said_or_changes_nothing(how, prepared, tmp_path):
    root = pathlib.Path(prepared)
    names = [path.relative_to(root) for path in (root / "tiny_pairs").rglob("*")]
    said = {
        name: read_damaged(tiny, tmp_path / "set", name, how, root)
        for name in [*names, pathlib.Path("tiny_pairs")]
    }
    assert sum(words is not None for words in said.values()) >= len(said) - 2
    for words in said.values():
        assert words is None or (words.startswith("tfds:tiny_pairs") and "\n" not in words)
    records = [words for name, words in said.items() if "array_record" in name.name]
    assert len(records) == 3 and all(records)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_set_of_the_project_is_prepared_again_or_refused(how, tmp_path, monkeypatch):
    monkeypatch.setattr(Synthetic, "SIZES", {"train": 30, "validation": 3, "test": 3})

    def open_corpus(root):
        return tiny(root, "tfds:reverse", "source", "target")

    open_corpus(tmp_path / "whole")
    root = tmp_path / "whole"
    names = [path.relative_to(root) for path in [root / "reverse", *(root / "reverse").rglob("*")]]
    assert len(names) == 8
    for name in names:
        words = read_damaged(open_corpus, tmp_path / "set", name, how, root)
        assert words is None or ("tfds:reverse" in words and "\n" not in words)
