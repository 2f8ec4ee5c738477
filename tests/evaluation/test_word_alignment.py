import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bahdanau_jax.data.vocabularies import Vocabularies, build
from bahdanau_jax.evaluation.word_alignment import merge, word_alignment
from bahdanau_jax.special_ids import UNK

lengths = st.lists(st.integers(1, 4), max_size=6)
TEXTS = ["der Hund läuft schnell", "ein Hund und ein Mann laufen", "die Männer laufen"]


def merged_by_loops(weights, source, target):
    merged = np.zeros((len(target), len(source)))
    for j, rows in enumerate(spans(target)):
        for i, columns in enumerate(spans(source)):
            merged[j, i] = np.mean([sum(weights[r, c] for c in columns) for r in rows])
    return merged


def spans(lengths):
    ends = np.cumsum(lengths, dtype=int)
    return [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]


@given(lengths, lengths, st.integers(0, 9))
def test_merging_equals_its_loops_and_rows_still_sum_to_one(source, target, seed):
    weights = np.random.default_rng(seed).random((sum(target), sum(source)))
    if weights.size:
        weights /= weights.sum(axis=1, keepdims=True)
    found = merge(weights, source, target)
    np.testing.assert_allclose(found, merged_by_loops(weights, source, target))
    if weights.size:
        np.testing.assert_allclose(found.sum(axis=1), 1)


def test_words_that_are_not_those_of_the_matrix_are_refused():
    with pytest.raises(ValueError, match="weights"):
        merge(np.ones((3, 4)), [2, 2], [2, 2])


@pytest.fixture(scope="module", params=["unigram", "bpe", "words", "symbols", "characters"])
def vocabularies(request):
    size = 27 if request.param in ("unigram", "bpe") else 0
    vocabulary = build(request.param, size, TEXTS)
    return Vocabularies(vocabulary, vocabulary)


HOSTILE = [
    *TEXTS,
    "",
    "  der   Hund ",
    "Ж Ω der漢字 x",
    "a▁b der",
    "der\u00a0Hund\tläuft",
    "▁",
    "⁇ der",
]


@pytest.mark.parametrize("text", TEXTS + HOSTILE)
def test_each_word_has_its_tokens_and_the_words_are_those_of_the_text(vocabularies, text):
    vocabulary = vocabularies.source
    ids = vocabulary.encode(text)
    lengths = vocabulary.word_lengths(ids)
    assert sum(lengths) == len(ids)
    assert all(length >= 1 for length in lengths)
    words = vocabulary.words(text)
    assert len(words) == len(lengths)
    assert not set("".join(words)) - set(text)
    assert len("".join(words)) >= len("".join(text.split())) - text.count("▁")


def test_a_pair_is_named_and_merged_with_the_end_in_a_column_of_its_own(vocabularies):
    source, target = "der Mann läuft", "die Männer Ж"
    ids = [vocabularies.source.encode(text) for text in (source, target)]
    weights = np.random.default_rng(0).dirichlet(np.ones(len(ids[0]) + 1), len(ids[1]))
    found = word_alignment(vocabularies, (source, target), (ids[0], ids[1]), weights)
    if getattr(vocabularies.source, "kind", "") == "characters":
        assert (found.source, found.target) == (list(source), list(target))
        np.testing.assert_allclose(found.weights, weights)
    else:
        assert (found.source, found.target) == (source.split(), target.split())
    assert UNK in ids[1]  # and yet the word is shown as it was given
    np.testing.assert_allclose(found.weights.sum(axis=1), 1)
    np.testing.assert_allclose(found.uniform.sum(axis=1), 1)
    shares = np.array([*found.source_lengths, 1]) / (len(ids[0]) + 1)
    np.testing.assert_allclose(found.uniform, np.tile(shares, (len(found.target), 1)))


def test_an_output_whose_tokens_are_not_its_texts_own_is_shown_by_its_tokens():
    vocabulary = build("bpe", 27, TEXTS)
    one = vocabulary.encode("der")
    ids = [token for token in vocabulary.encode("Hund") if token != UNK]
    both = Vocabularies(vocabulary, vocabulary)
    weights = np.full((len(ids), len(one) + 1), 1 / (len(one) + 1))
    found = word_alignment(both, ("der", "two words"), (one, ids), weights)
    assert found.target == ["Hund"]


def test_an_empty_side_has_no_words(vocabularies):
    empty = word_alignment(vocabularies, ("", ""), ([], []), np.zeros((0, 1)))
    assert (empty.source, empty.target, empty.weights.shape) == ([], [], (0, 1))
    assert empty.uniform.shape == (0, 1)
