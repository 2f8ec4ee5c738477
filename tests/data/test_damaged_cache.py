"""Every file of a prepared data set, damaged in every way, before every kind of start.

No start ends by a traceback or hangs, none goes on with other ids than an undamaged one, and the
user's text stays as it is. What lies in the cache is made anew; what a run needs and nobody can
make again, its vocabularies, is refused in one line.
"""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tiny
from path_damages import (
    anothers,
    delete,
    directory,
    fifo,
    files_in,
    link_to_anothers,
    truncate,
    zero,
)

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps, store_files
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.setup import cache_directory

PATIENCE = 60  # seconds after which a start hangs
SPLITS = ("train", "dev", "test")
STORE = [*(f"{name}.npy" for name in store_files.FILES), store_files.RECORD]
CACHED = [f"tokens/KEY/{name}" for name in STORE] + [f"fingerprints/{s}" for s in SPLITS]
CACHED += ["tokens/KEY", "tokens", "fingerprints"]
SAVED = [f"vocabulary/{name}" for name in ("vocabulary.json", "source.json", "target.json")]


class Prepared(NamedTuple):
    """A data set of which everything has been made once, and another one beside it."""

    root: Path

    @property
    def data(self) -> DataConfig:
        return tiny.config(f"tsv:{self.root / 'text'}").data

    def use(self) -> "Prepared":
        """Lets the cache of this data set be the user's."""
        os.environ["XDG_CACHE_HOME"] = str(self.root / "cache")
        return self

    def path(self, name: str) -> Path:
        """Returns where a file lies whose name the text decides."""
        if name.startswith("vocabulary"):
            return self.root / "run" / name
        if name.startswith("fingerprints/"):
            mark = Corpus(self.data).stamp(name.removeprefix("fingerprints/"))
            assert mark is not None
            return cache_directory() / "fingerprints" / mark
        if name.startswith("tokens/KEY"):
            (record,) = (cache_directory() / "tokens").glob(f"*/{store_files.RECORD}")
            return record.parent / name.removeprefix("tokens/KEY").lstrip("/")
        return cache_directory() / name


def ids(fill, store) -> list:
    return fill(np.arange(len(store)), len(store), 20).tolist()


def train(prepared: Prepared, said: list[str]) -> list:
    """Reads what a training run reads; the ids of its splits, their fingerprints."""
    saved = Vocabularies.load_saved(prepared.root / "run" / "vocabulary")
    data = open_data(prepared.data, saved, said.append)
    splits = [(x.pairs, x.examples) for x in data.training_splits(said.append)]
    store = data.training_store(said.append)
    stores = [store, *(pairs for pairs, _ in splits)]
    texts = [examples for _, examples in splits]
    sides = [(ids(store.sources, store), ids(store.targets, store)) for store in stores]
    return [sides, texts, data.fingerprints(*SPLITS)]


def evaluate(prepared: Prepared, said: list[str]) -> list:
    saved = Vocabularies.load(prepared.root / "run" / "vocabulary")
    data = open_data(prepared.data, saved, said.append)
    split = data.evaluation_split("test", said.append)
    return [ids(split.pairs.targets, split.pairs), split.examples, data.fingerprints("test")]


def translate(prepared: Prepared, said: list[str]) -> list:
    del said
    saved = Vocabularies.load(prepared.root / "run" / "vocabulary")
    encoded = [saved.source.encode(line) for line in ("fed", "cab", "zed", "")]
    return [encoded, [saved.target.tokens(range(saved.target.size))]]


MODES = (train, evaluate, translate)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A data set and another one, which are prepared, and what an undamaged start of each reads."""
    patch = pytest.MonkeyPatch()
    patch.setattr(file_stamps, "_SETTLED", 0)  # the text was written just now
    patch.setenv("XDG_CACHE_HOME", "")
    root = tmp_path_factory.mktemp("prepared")
    tiny.write_corpus(root / "text")
    (root / "others").mkdir()
    for file in (root / "text").iterdir():  # the same vocabularies, other ids
        lines = file.read_text().splitlines()
        (root / "others" / file.name).write_text("\n".join(reversed(lines)) + "\n")
    results = {}
    for name in ("text", "others"):
        here = root / f"of {name}"
        here.mkdir()
        (here / "text").symlink_to(root / name)
        prepared = Prepared(here).use()
        data = open_data(prepared.data, None, lambda _: None)
        data.vocabularies.save(here / "run" / "vocabulary")
        results[name] = [mode(prepared, []) for mode in MODES]
    assert all(a != b for a, b in zip(results["text"][:2], results["others"][:2], strict=True))
    shutil.copytree(root / "of text", root / "whole", symlinks=True)
    yield root, dict(zip(MODES, results["text"], strict=True))
    patch.undo()


@pytest.fixture
def prepared(made, monkeypatch):
    """The data set with its cache and run as they were made."""
    root, _ = made
    for name in ("cache", "run"):
        shutil.rmtree(root / "of text" / name)
        shutil.copytree(root / "whole" / name, root / "of text" / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "of text" / "cache"))

    def hangs(*_):
        raise TimeoutError(f"a start takes more than {PATIENCE} s")

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(PATIENCE)
    yield Prepared(root / "of text")
    signal.alarm(0)


def files(*directories: Path) -> dict[Path, tuple[int, bytes]]:
    """Returns the time of change and the content of every file below directories."""
    every = [path for directory in directories for path in directory.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in every}


def flip_a_bit(path: Path, other: Path) -> None:
    for file in files_in(path):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)


def empty(path: Path, other: Path) -> None:
    for file in files_in(path):
        file.write_bytes(b"")


def file(path: Path, other: Path) -> None:
    delete(path, other)
    path.write_text("A file.\n")


def link_to_the_text(path: Path, other: Path) -> None:
    delete(path, other)
    text = Path(os.environ["XDG_CACHE_HOME"]).parent / "text"
    path.symlink_to(text if other.is_dir() else text / "train.tsv")


def link_to_itself(path: Path, other: Path) -> None:
    delete(path, other)
    path.symlink_to(path)


DAMAGES: list[Callable[[Path, Path], None]] = [
    truncate,
    zero,
    flip_a_bit,
    empty,
    delete,
    directory,
    file,
    fifo,
    link_to_the_text,
    link_to_itself,
    link_to_anothers,
    anothers,
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", CACHED + SAVED)
def test_no_damage_ends_a_start_badly_or_changes_what_it_reads(
    made, prepared, monkeypatch, name, damage, mode
):
    root, undamaged = made
    path = prepared.path(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / "of others" / "cache"))
    other = Prepared(root / "of others").path(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(prepared.root / "cache"))
    before = files(root / "text", root / "of others")
    damage(path, other)
    # Where a whole part of the cache is kept is the user's choice, if it is a directory.
    moved = path.is_symlink() and path.is_dir() and name in ("tokens", "fingerprints")

    said = []
    try:
        read = mode(prepared, said)
    except InputError as error:
        assert name in SAVED and "\n" not in str(error)
        assert any(file in str(error) for file in ("vocabulary.json", path.name))
        return
    finally:
        after = files(root / "text", root / "of others")
        for added in after.keys() - before.keys():
            assert moved
            added.unlink()
        assert before.items() <= after.items()
    assert read == undamaged[mode]
    if mode is train and name.startswith("tokens/KEY") and path.exists():
        told = any("is damaged" in text for text in said)
        assert told or (name == "tokens/KEY" and damage is delete)
    if moved:
        return
    # What is made anew is whole, and nothing is left of what was in its place.
    said.clear()
    assert mode(prepared, said) == read
    assert not any("damaged" in text or "turning" in text for text in said)
    assert not [path for path in cache_directory().rglob(".*")]


def test_the_family_has_no_fewer_cases_than_it_had():
    assert len(CACHED + SAVED) * len(DAMAGES) * len(MODES) >= 504
