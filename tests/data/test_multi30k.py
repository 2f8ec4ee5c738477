import gzip
import hashlib

import given_data
import pytest
import serving

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets import multi30k, raw_files
from bahdanau_jax.errors import InputError

LINES = {
    "en": {"train": "A house.\nA cat.\n", "val": "Two\u2028dogs.\n", "test_2016_flickr": "Sea.\n"},
    "de": {
        "train": "Ein Haus.\nEine Katze.\n",
        "val": "Zwei Hunde.\n",
        "test_2016_flickr": "Meer.",
    },
}
TEXTS = {
    f"{stem}.{language}": text.encode()
    for language, stems in LINES.items()
    for stem, text in stems.items()
}


@pytest.fixture(autouse=True)
def _no_way_but_those_of_a_test(monkeypatch):
    monkeypatch.delenv(raw_files.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server(monkeypatch):
    """A server with a few captions, which the data set takes for its own."""
    sha256 = {name: hashlib.sha256(text).hexdigest() for name, text in TEXTS.items()}
    monkeypatch.setattr(multi30k, "SHA256", sha256)
    stored = {f"{name}.gz": gzip.compress(text, mtime=0) for name, text in TEXTS.items()}
    with serving.serving(stored) as served:
        monkeypatch.setattr(multi30k, "ADDRESS", served.address)
        yield served


def captions(directory, source="en", target="de", name="multi30k/en-de"):
    return Corpus(DataConfig(f"tfds:{name}", source, target, str(directory)))


def test_it_is_downloaded_once_and_reads_as_the_same_text_does(tmp_path, server, capsys):
    files = tmp_path / "files"
    files.mkdir()
    for name, text in TEXTS.items():
        (files / name).write_bytes(text)
    plain = Corpus(DataConfig(f"text:{files}", "de", "en"))
    corpus = captions(tmp_path, "de", "en")
    assert capsys.readouterr().out == ""  # standard output is for results
    assert corpus.splits == plain.splits == ("train", "dev", "test_2016_flickr")
    for split in plain.splits:
        assert list(corpus.examples(split)) == list(plain.examples(split))
        assert corpus.fingerprint(split) == plain.fingerprint(split)

    asked = list(server.asked)
    assert len(asked) == len(set(asked)) == 6
    assert list(captions(tmp_path).pairs()) == [
        ("A house.", "Ein Haus."),
        ("A cat.", "Eine Katze."),
    ]
    assert server.asked == asked


def test_a_download_that_breaks_off_leaves_no_data_set_behind(tmp_path, server):
    whole = server["val.de.gz"]
    for broken in (whole[:-5] + serving.CUT, whole[:-5], b""):
        server["val.de.gz"] = broken
        with pytest.raises(InputError, match=r"can't get .*/val\.de\.gz") as caught:
            captions(tmp_path)
        assert "\n" not in str(caught.value)
        assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["metadata.json"]
    server["val.de.gz"] = whole
    assert len(list(captions(tmp_path).pairs())) == 2


def test_a_directory_of_prepared_sets_has_a_place_for_raw_files(tmp_path, server):
    manual = tmp_path / "downloads" / "manual" / "multi30k"
    manual.mkdir(parents=True)
    for name, content in server.items():
        (manual / name).write_bytes(content)
    assert len(list(captions(tmp_path).pairs())) == 2
    assert server.asked == []


@pytest.mark.parametrize("name", ["multi30k", "multi30k/de-en", "multi30k/en-de/x"])
def test_only_pairs_of_languages_that_it_has_are_data_sets(tmp_path, name):
    with pytest.raises(InputError, match=f"tfds:{name}: .*give tfds:multi30k/en-de or tfds:"):
        captions(tmp_path, name=name)


def test_another_version_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"give tfds:multi30k/en-de:1\.0\.0"):
        captions(tmp_path, name="multi30k/en-de:2.0.0")


@pytest.mark.parametrize(
    ("name", "source", "target"), [("en-de", "en", "de"), ("en-fr", "fr", "en")]
)
def test_the_real_captions_are_those_that_text_files_give(
    tmp_path, monkeypatch, name, source, target
):
    folder = given_data.folder("multi30k")
    monkeypatch.setenv(raw_files.VARIABLE, str(folder.parent))
    plain = Corpus(DataConfig(f"text:{folder}", source, target))
    corpus = captions(tmp_path, source, target, f"multi30k/{name}")
    assert corpus.splits == plain.splits
    for split in plain.splits:
        assert corpus.fingerprint(split) == plain.fingerprint(split)
