import numpy as np
import pytest

from bahdanau_jax.data.vocabularies import build
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.word_alignment import WordAlignment
from bahdanau_jax.modes.translate import normalized, read_lexicon, replace_unknown
from bahdanau_jax.special_ids import UNK


def aligned(source: str, target: str, rows) -> WordAlignment:
    return WordAlignment(source.split(), target.split(), np.array(rows), [1] * len(source.split()))


def test_an_unknown_word_becomes_the_word_it_attends_to_most_or_its_translation():
    vocabulary = build("words", 0, ["ein Hund sieht"])
    ids = vocabulary.encode("ein Rex sieht Bello")
    assert ids.count(UNK) == 2
    rows = [[0.9, 0, 0, 0, 0.1], [0, 0.8, 0, 0.1, 0.1], [0, 0, 1, 0, 0], [0, 0, 0.1, 0.2, 0.7]]
    alignment = aligned("a Rex sees Fido", vocabulary.decode(ids), rows)
    # The end mark, which the last word attends to most, is no word.
    assert replace_unknown(vocabulary, ids, alignment, {}) == "ein Rex sieht Fido"
    lexicon = {"Fido": "Bello", "sees": "guckt"}
    assert replace_unknown(vocabulary, ids, alignment, lexicon) == "ein Rex sieht Bello"


def test_a_known_word_that_looks_like_an_unknown_one_stays():
    vocabulary = build("words", 0, ["⁇ a"])
    ids = vocabulary.encode("⁇ a")
    assert UNK not in ids
    assert replace_unknown(vocabulary, ids, aligned("x y", "⁇ a", np.eye(2, 3)), {}) == "⁇ a"


def test_characters_are_joined_without_a_space():
    vocabulary = build("characters", 0, ["abc"])
    ids = vocabulary.encode("abé")
    alignment = WordAlignment(list("xyz"), list("ab⁇"), np.eye(3, 4), [1, 1, 1])
    assert replace_unknown(vocabulary, ids, alignment, {}) == "abz"


def test_a_piece_that_is_unknown_makes_its_word_so():
    vocabulary = build("bpe", 40, ["the cat sat on the mat", "a cat and a dog"] * 3)
    ids = vocabulary.encode("cat ca\u4e2d dog")
    text = vocabulary.decode(ids)
    assert len(text.split()) == 3 and UNK in ids
    alignment = aligned("un deux trois", text, np.eye(3, 4))
    assert replace_unknown(vocabulary, ids, alignment, {"deux": "two"}) == "cat two dog"


def test_an_output_without_a_source_word_stays():
    vocabulary = build("words", 0, ["a"])
    alignment = WordAlignment([], ["⁇"], np.ones((1, 1)), [])
    assert replace_unknown(vocabulary, [UNK], alignment, {}) == "⁇"


def test_a_word_without_any_weight_stays():
    vocabulary = build("words", 0, ["a"])
    for rows in ([[0, 0, 0]], [[0, 0, 1]]):  # a window beside the sentence; the end mark alone
        assert replace_unknown(vocabulary, [UNK], aligned("x y", "⁇", rows), {}) == "⁇"


def test_a_lexicons_source_words_are_written_as_the_models_sources_are():
    lexicon = {"Cafe\u0301": "Kaffee", "Caf\u00e9": "Lokal", "CAF\u00c9": "Haus", "x": "y"}
    assert normalized(lexicon, lowercase=False) == {
        "Caf\u00e9": "Kaffee",
        "CAF\u00c9": "Haus",
        "x": "y",
    }
    assert normalized(lexicon, lowercase=True) == {"caf\u00e9": "Kaffee", "x": "y"}


def test_the_first_translation_of_a_word_counts(tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text("dog\tHund\n\ncat\tKatze\ndog\tKöter\n", encoding="utf-8")
    assert read_lexicon(str(path)) == {"dog": "Hund", "cat": "Katze"}


@pytest.mark.parametrize("line", ["dog Hund", "dog\tHund\t0.5", "\tHund", "dog\t"])
def test_a_line_that_is_no_pair_is_refused(line, tmp_path):
    path = tmp_path / "lexicon.tsv"
    path.write_text(f"cat\tKatze\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"lexicon\.tsv, line 2: .* a tab"):
        read_lexicon(str(path))


def test_a_lexicon_that_is_absent_is_refused(tmp_path):
    with pytest.raises(InputError, match="absent"):
        read_lexicon(str(tmp_path / "absent"))
