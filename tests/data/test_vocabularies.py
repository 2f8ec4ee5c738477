import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bahdanau_jax.config import VocabularyConfig
from bahdanau_jax.data.vocabularies import (
    KINDS,
    UNKNOWN_MARK,
    Vocabularies,
    build,
    build_vocabularies,
    load,
)
from bahdanau_jax.errors import InputError
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK

STEMS = ("walk", "talk", "jump", "look", "call", "play")
TEXTS = [f"the {a}er {b}ed and {a}s {b}ing ." for a in STEMS for b in STEMS]
SIZES = {"characters": 0, "symbols": 0, "words": 0, "unigram": 34, "bpe": 34}


@pytest.fixture(params=KINDS)
def vocabulary(request):
    return build(request.param, SIZES[request.param], TEXTS)


def test_special_ids_are_the_first_four(vocabulary):
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert vocabulary.tokens([PAD, BOS, EOS, UNK]) == ["<pad>", "<s>", "</s>", UNKNOWN_MARK]


def test_decode_inverts_encode(vocabulary):
    for text in TEXTS:
        ids = vocabulary.encode(text)
        assert all(UNK < token < vocabulary.size for token in ids)
        assert vocabulary.decode(ids) == text


def test_decode_stops_at_eos_and_skips_pad_and_bos(vocabulary):
    ids = vocabulary.encode(TEXTS[0])
    row = np.array([BOS, PAD, *ids, EOS, *ids, PAD], np.int32)
    assert vocabulary.decode(row) == TEXTS[0]
    assert vocabulary.decode([]) == vocabulary.decode([BOS, EOS]) == ""


def test_tokens_are_one_for_each_id(vocabulary):
    ids = [BOS, *vocabulary.encode(TEXTS[0]), EOS, PAD]
    assert len(vocabulary.tokens(np.array(ids))) == len(ids)


def test_every_id_below_the_size_has_a_token_and_none_above(vocabulary):
    assert len(set(vocabulary.tokens(range(vocabulary.size)))) == vocabulary.size
    for outside in (-1, vocabulary.size):
        with pytest.raises(IndexError):
            vocabulary.tokens([outside])
        with pytest.raises(IndexError):
            vocabulary.decode([outside])


def test_unknown_text_shows_a_mark(vocabulary):
    ids = vocabulary.encode("Ж")
    assert UNK in ids
    assert vocabulary.decode(ids).strip() == UNKNOWN_MARK


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trained", [True, False])
def test_text_that_looks_like_a_special_mark_stays_text(kind, trained):
    literal = "<s> the <pad> </s> <unk> ⁇"
    texts = TEXTS + [literal] * 20 * trained
    vocabulary = build(kind, SIZES[kind], texts)
    ids = vocabulary.encode(literal)
    assert not {PAD, BOS, EOS} & set(ids)
    assert (UNK in ids) != trained
    if trained:
        assert vocabulary.decode(ids) == literal


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_vocabulary_while_others_compute(kind):
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [sum(range(999)) for _ in iter(stop.is_set, True)])
    first = build(kind, SIZES[kind], TEXTS)
    busy.start()
    try:
        again = build(kind, SIZES[kind], iter(TEXTS))
    finally:
        stop.set()
        busy.join()
    assert first.fingerprint == again.fingerprint
    assert first.tokens(range(first.size)) == again.tokens(range(again.size))


def test_a_shortlist_keeps_the_most_frequent_and_breaks_ties_by_text():
    texts = ["b a c", "d b", "c a"]  # a, b and c twice, d once
    vocabulary = build("words", 6, texts)
    assert vocabulary.tokens([4, 5]) == ["a", "b"]
    assert vocabulary.encode("d a c b") == [UNK, 4, UNK, 5]
    assert vocabulary.decode([UNK, 4]) == f"{UNKNOWN_MARK} a"


@pytest.mark.parametrize("kind", ["words", "symbols", "unigram", "bpe"])
def test_words_are_separated_by_spaces_and_by_nothing_else(kind):
    text = "a\tb  c\u00a0d e\u2009f\u3000g "
    vocabulary = build(kind, SIZES[kind] and 16, [text])
    words = ["a\tb", "c\u00a0d", "e\u2009f\u3000g"]
    assert vocabulary.words(text) == words
    assert len(vocabulary.word_lengths(vocabulary.encode(text))) == len(words)


def test_characters_are_code_points_and_keep_spaces():
    vocabulary = build("characters", 0, ["a  b"])
    assert vocabulary.tokens(vocabulary.encode(" ab")) == [" ", "a", "b"]
    assert vocabulary.decode([vocabulary.encode("a")[0], UNK]) == f"a{UNKNOWN_MARK}"


def test_fingerprints_tell_vocabularies_apart():
    made = [build(kind, SIZES[kind], TEXTS) for kind in KINDS]
    made.append(build("words", 7, TEXTS))
    made.append(build("symbols", 0, ["a b"]))  # the same tokens as the next, used otherwise
    made.append(build("words", 0, ["a b"]))
    assert len({vocabulary.fingerprint for vocabulary in made}) == len(made)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_wrong_size_names_one_that_works(kind):
    for size in (5, 10, 100_000):
        with pytest.raises(InputError) as caught:
            build(kind, size, TEXTS)
        numbers = [int(word) for word in str(caught.value).split() if word.isdecimal()]
        works = numbers[-1]
        assert works != size
        assert build(kind, works, TEXTS).size == works
        with pytest.raises(InputError):
            build(kind, works + (1 if size > works else -1), TEXTS)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("size", [-1, 0, 4])
def test_pieces_need_a_size(kind, size):
    with pytest.raises(InputError, match="needs a size"):
        build(kind, size, TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_text_without_tokens_is_refused(kind):
    for texts in ([], [""]):
        with pytest.raises(InputError, match="the text"):
            build(kind, 50, texts)


@pytest.mark.parametrize("size", [-1, 1, 4])
def test_a_size_without_room_is_refused(size):
    with pytest.raises(InputError, match="use 5 or more"):
        build("words", size, TEXTS)


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(InputError, match="characters, symbols, words, unigram, bpe"):
        build("wordpiece", 0, TEXTS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_the_text_comes_through_unchanged(kind):
    def texts():
        yield from TEXTS
        raise InputError("line 7 is not UTF-8")

    with pytest.raises(InputError, match=r"^line 7 is not UTF-8$"):
        build(kind, SIZES[kind], texts())


def test_saved_and_loaded_is_the_same(vocabulary, tmp_path):
    path = tmp_path / f"v{vocabulary.suffix}"
    vocabulary.save(path)
    loaded = load(path)
    assert loaded.fingerprint == vocabulary.fingerprint
    assert loaded.size == vocabulary.size
    assert [loaded.encode(text) for text in TEXTS] == [vocabulary.encode(text) for text in TEXTS]
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@settings(deadline=None)  # each example waits for the disk
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), min_size=1))
def test_any_characters_survive_the_file(tmp_path_factory, texts):
    texts = [*texts, "x"]
    vocabulary = build("characters", 0, texts)
    path = tmp_path_factory.mktemp("any") / "v.json"
    vocabulary.save(path)
    for text in texts:
        assert load(path).decode(load(path).encode(text)) == text


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.json"):
        load(tmp_path / "absent.json")


@pytest.mark.parametrize("damage", ["empty", "half", "other", "changed"])
def test_a_damaged_file_is_named(vocabulary, tmp_path, damage):
    path = tmp_path / f"v{vocabulary.suffix}"
    Vocabularies(vocabulary, vocabulary).save(tmp_path)
    path = tmp_path / f"joint{vocabulary.suffix}"
    content = path.read_bytes()
    changed = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "other": b'{"kind": "words"}',
        "changed": content.replace(b"k", b"q", 1),
    }
    path.write_bytes(changed[damage])
    with pytest.raises(InputError, match=r"joint\.(json|model)"):
        Vocabularies.load(tmp_path)


def test_an_edited_list_is_noticed_without_its_index(tmp_path):
    path = tmp_path / "v.json"
    build("words", 0, TEXTS).save(path)
    path.write_text(path.read_text().replace('"the"', '"a"'))
    with pytest.raises(InputError, match="don't match its fingerprint"):
        load(path)


def pairs():
    return [(text, text.upper()) for text in TEXTS]


def test_both_sides_are_saved_and_loaded(tmp_path):
    config = VocabularyConfig(kind="characters", size=0, target_kind="bpe", target_size=50)
    built = build_vocabularies(config, pairs())
    assert not built.joint
    assert built.target.size == 50
    built.save(tmp_path / "vocabulary")
    loaded = Vocabularies.load(tmp_path / "vocabulary")
    assert not loaded.joint
    assert loaded.fingerprint == built.fingerprint
    assert loaded.source.decode(loaded.source.encode(TEXTS[0])) == TEXTS[0]
    assert loaded.target.decode(loaded.target.encode(TEXTS[0].upper())) == TEXTS[0].upper()


def test_each_side_learns_from_its_own_text():
    built = build_vocabularies(VocabularyConfig(kind="words", size=0), [("a b", "c")])
    assert built.source.encode("a c") == [4, UNK]
    assert built.target.encode("a c") == [UNK, 4]


def test_a_joint_vocabulary_is_one_object_with_both_sides_text(tmp_path):
    config = VocabularyConfig(kind="words", size=0, joint=True)
    built = build_vocabularies(config, [("a b", "c")])
    assert built.joint
    assert UNK not in built.source.encode("a b c")
    built.save(tmp_path)
    loaded = Vocabularies.load(tmp_path)
    assert loaded.source is loaded.target
    assert loaded.fingerprint == built.fingerprint


def test_saving_again_replaces_the_pair(tmp_path):
    build_vocabularies(VocabularyConfig(kind="words", size=0, joint=True), pairs()).save(tmp_path)
    second = build_vocabularies(VocabularyConfig(kind="bpe", size=50), pairs())
    second.save(tmp_path)
    assert Vocabularies.load(tmp_path).fingerprint == second.fingerprint


def test_a_vocabulary_from_elsewhere_is_noticed(tmp_path):
    build_vocabularies(VocabularyConfig(kind="words", size=0), pairs()).save(tmp_path)
    build("words", 9, TEXTS).save(tmp_path / "source.json")
    with pytest.raises(InputError, match=r"source\.json"):
        Vocabularies.load(tmp_path)


@pytest.mark.parametrize("index", ["", "[]", '{"source": 1}', '{"source": {}, "target": {}}'])
def test_a_damaged_index_is_named(tmp_path, index):
    (tmp_path / "vocabulary.json").write_text(index)
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged; bring back a copy"):
        Vocabularies.load(tmp_path)


def test_an_error_names_its_side():
    config = VocabularyConfig(kind="words", size=0, target_kind="bpe", target_size=10**6)
    with pytest.raises(InputError, match=r"^target vocabulary: size 1000000 is too large"):
        build_vocabularies(config, pairs())


def test_the_token_file_can_be_read_by_people(tmp_path):
    build("words", 0, ["über b"]).save(tmp_path / "v.json")
    text = (tmp_path / "v.json").read_text(encoding="utf-8")
    assert json.loads(text)["tokens"] == ["b", "über"]
    assert '"über"' in text
