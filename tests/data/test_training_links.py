"""Links of the training pairs: which tokens they join, and what is said of a file that can't be."""

import functools
import gzip
import random

import numpy as np
import pytest
from open_files import open_files

from bahdanau_jax.config import DataConfig, VocabularyConfig
from bahdanau_jax.data import training_links
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.training_links import LinkStore
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime.setup import cache_directory

PAIRS = ["a b c\tx y", " \tx", "b\tx y z\tz", "c a\t", "c b\tx"]
LINKS = ["0-0 2-0 1?1", "", "0-2", "0-0", "", "1-0"]  # the third line has two references


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def config(tmp_path, pairs=PAIRS, links=LINKS, kind="words", **changes) -> DataConfig:
    (tmp_path / "train.tsv").write_text("\n".join(pairs) + "\n")
    (tmp_path / "links").write_text("\n".join(links) + "\n")
    made = DataConfig(f"tsv:{tmp_path}", train_links=str(tmp_path / "links"))
    made.vocabulary = VocabularyConfig(kind, size=changes.pop("size", 0))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def opened(config, said=lambda _: None) -> tuple[TokenStore, LinkStore]:
    data = open_data(config, None, lambda _: None)
    tokens = data.training_store(lambda _: None)
    links = data.training_links(config, tokens, said)
    assert links is not None
    assert len(links) == len(tokens)
    return tokens, links


def shown(links, pair, source, target):
    """Returns the weights of a pair, without those of a row that pads the batch."""
    weights = links.weights(np.array([pair]), 2, source, target)
    assert weights.dtype == np.float32
    assert weights.shape == (2, target, source)
    assert not weights[1].any()
    return weights[0].tolist()


def test_each_word_has_equal_parts_of_the_words_that_it_is_linked_with(tmp_path):
    # Possible links count as sure ones do; the end mark's row and column are empty.
    _, links = opened(config(tmp_path))
    assert shown(links, 0, 4, 3) == [[0.5, 0, 0.5, 0], [0, 1, 0, 0], [0] * 4]


def test_a_line_is_that_of_its_pair_where_pairs_without_text_are_left_out(tmp_path):
    tokens, links = opened(config(tmp_path, links=[*LINKS[:3], "", *LINKS[4:]]))
    assert len(tokens) == 4
    assert shown(links, 1, 2, 4) == [[0, 0], [0, 0], [1, 0], [0, 0]]  # b with x y z
    assert shown(links, 2, 2, 2) == [[0, 0], [0, 0]]  # b with z, on the same line of the table
    assert shown(links, 3, 3, 2) == [[0, 1, 0], [0, 0, 0]]  # c b


def test_links_may_be_counted_from_one_and_packed(tmp_path):
    made = config(tmp_path, links_base=1)
    lines = ["1-1 3-1 2-2", "", "1-3", "1-1", "", "2-1"]
    (tmp_path / "links.gz").write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    made.train_links = str(tmp_path / "links.gz")
    _, links = opened(made)
    assert shown(links, 0, 4, 3) == [[0.5, 0, 0.5, 0], [0, 1, 0, 0], [0] * 4]


def test_a_character_is_a_word_where_the_vocabulary_is_of_characters(tmp_path):
    made = config(tmp_path, ["ab c\txy"], ["3-0 2-1"], "characters")
    _, links = opened(made)
    assert shown(links, 0, 5, 3) == [[0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0] * 5]


def test_a_link_joins_all_pieces_of_both_words(tmp_path):
    chance = random.Random(0)

    def sentence() -> str:
        return " ".join("".join(chance.choices("abcd", k=chance.randint(1, 7))) for _ in range(4))

    pairs = [f"{sentence()}\t{sentence()}" for _ in range(60)]
    made = config(tmp_path, pairs, ["1-2 3-2 0-0"] * 60, "bpe", size=20)
    data = open_data(made, None, lambda _: None)
    tokens, links = opened(made)
    longest = 0
    for pair in range(60):
        source, target = (side[pair] for side in (tokens.source_lengths, tokens.target_lengths))
        weights = np.array(shown(links, pair, source, target))
        sides = pairs[pair].split("\t")
        ids = (data.vocabularies.source.encode(sides[0]), data.vocabularies.target.encode(sides[1]))
        of_source, of_target = (
            np.repeat(np.arange(4), vocabulary.word_lengths(i))
            for vocabulary, i in zip(
                (data.vocabularies.source, data.vocabularies.target), ids, strict=True
            )
        )
        longest = max(longest, len(of_source))
        linked = {(1, 2), (3, 2), (0, 0)}
        wanted = np.array([[(s, t) in linked for s in of_source] for t in of_target], float)
        wanted /= np.maximum(wanted.sum(axis=1, keepdims=True), 1)
        np.testing.assert_allclose(weights[:-1, :-1], wanted, rtol=1e-6)
        assert not weights[-1].any() and not weights[:, -1].any()
    assert longest > 8  # words have several pieces


WRONG = [
    (LINKS[:-1], {}, ["5 lines of links", "6 pairs", "an empty one"]),
    ([*LINKS, ""], {}, ["7 lines of links", "6 pairs"]),
    # A missing line makes links of other pairs out of these; the number of lines is what is wrong.
    (["0-2", "0-0", "1-0"], {}, ["3 lines of links", "6 pairs"]),
    (["3-0", *LINKS[1:]], {}, ["line 1", "3-0", "from 0", "only 3 source and 2 target words"]),
    (["0-2", *LINKS[1:]], {}, ["line 1", "0-2", "only 3 source and 2 target words"]),
    (
        ["3-2 1-1", "", "1-3", "1-1", "", "2-1"],
        {},
        ["line 1", "counted from 1, all links fit", "data.links_base=1"],
    ),
    (LINKS, {"links_base": 1}, ["line 1: a link 0-0", "from 1", "data.links_base=0"]),
    (["0:0", *LINKS[1:]], {}, ["line 1", "'0:0' is no link", "i-j"]),
    (["0-0 0-0 0", *LINKS[1:]], {}, ["line 1", "'0' is no link"]),
]


@pytest.mark.parametrize(("lines", "changes", "says"), WRONG)
def test_what_cannot_be_is_said_in_one_line(lines, changes, says, tmp_path):
    made = config(tmp_path, links=lines, **changes)
    with pytest.raises(InputError) as caught:
        opened(made)
    message = str(caught.value)
    assert message.startswith("data.train_links: ") and "\n" not in message
    assert [part for part in says if part not in message] == [], message
    assert open_files(tmp_path) == []
    assert not [x for x in (cache_directory() / "tokens").iterdir() if x.name.startswith(".")]


def test_a_file_that_is_not_there_is_named(tmp_path):
    made = config(tmp_path)
    made.train_links = str(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nowhere is no file; give one with a line for each"):
        opened(made)


def test_they_are_read_once_and_again_when_they_change_or_are_damaged(tmp_path):
    made, said = config(tmp_path), []
    opened(made, said.append)
    opened(made, said.append)
    assert len(said) == 1
    (tmp_path / "links").write_text("1-1\n\n0-2\n0-0\n\n1-0\n")
    _, links = opened(made, said.append)
    assert len(said) == 2
    assert shown(links, 0, 4, 3) == [[0] * 4, [0, 1, 0, 0], [0] * 4]
    for path in (cache_directory() / "tokens").glob("*/target_ids.npy"):
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
    _, links = opened(made, said.append)
    assert len(said) == 3
    assert shown(links, 0, 4, 3) == [[0] * 4, [0, 1, 0, 0], [0] * 4]


def test_batches_bring_the_links_of_their_pairs_whoever_reads_which_part(tmp_path):
    chance = random.Random(1)
    lengths = [(chance.randint(1, 6), chance.randint(1, 6)) for _ in range(23)]
    pairs = ["\t".join(" ".join("w" * n) for n in both) for both in lengths]
    lines = [
        " ".join(f"{chance.randrange(s)}-{chance.randrange(t)}" for _ in range(chance.randrange(5)))
        for s, t in lengths
    ]
    tokens, links = opened(config(tmp_path, pairs, lines))
    make = functools.partial(Batcher, tokens, seed=0, batch_size=4, max_length=5, shapes=2)
    plain, whole = make(), make(links=links)
    parts = [make(links=links, process_index=i, process_count=2) for i in (0, 1)]
    linked = 0
    for k in range(whole.batches_per_epoch):
        batch = whole.batch(k)
        np.testing.assert_array_equal(batch.source, plain.batch(k).source)
        np.testing.assert_array_equal(batch.target, plain.batch(k).target)
        assert batch.links is not None
        read = [part.batch(k).links for part in parts]
        np.testing.assert_array_equal(
            np.concatenate([x for x in read if x is not None]), batch.links
        )
        for row, pair in enumerate(whole.indices(k)):
            joined = {(int(j), int(i)) for i, j in np.argwhere(batch.links[row] > 0)}
            assert joined == {tuple(map(int, x.split("-"))) for x in lines[pair].split()}
            linked += len(joined)
    assert linked > 20


def test_the_fingerprint_is_that_of_the_lines(tmp_path):
    made = config(tmp_path)
    first = training_links.fingerprint(made)
    packed = config(tmp_path)
    (tmp_path / "links.gz").write_bytes(gzip.compress((tmp_path / "links").read_bytes()))
    packed.train_links = str(tmp_path / "links.gz")
    assert training_links.fingerprint(packed) == first
    (tmp_path / "links").write_text("0-0\n")
    assert training_links.fingerprint(made) != first
