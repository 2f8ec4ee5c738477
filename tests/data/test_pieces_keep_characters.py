import pytest

from bahdanau_jax.data.pieces import PIECE_KINDS, build_pieces
from bahdanau_jax.data.vocabulary import build_tokens
from bahdanau_jax.special_ids import UNK

PLAIN = ["the quick brown fox jumps over the lazy dog"] * 20
# Controls, spaces of all kinds, characters with a meaning for SentencePiece, others with none.
ODD = [
    *"\0\t\x01\x1f\x7f\u0085\u00a0\u0301\u2009\u200b\u2028\u2047▅\u3000",
    *"\ue000\ufeff\ufffd😀",
]


def check(kind: str, texts: list[str], characters: list[str]) -> None:
    size = len(set("".join(texts)) | {" "}) + 4
    vocabulary = build_pieces(kind, size, texts)
    for character in characters:
        ids = vocabulary.encode(f"o{character}o")
        assert UNK not in ids, repr(character)
        assert vocabulary.decode(ids) == f"o{character}o"
        assert "".join(vocabulary.tokens(ids)) == f"▁o{character}o"


@pytest.mark.parametrize("kind", PIECE_KINDS)
def test_no_character_of_the_text_becomes_unknown(kind):
    check(kind, [*PLAIN, *(f"o{character}o" for character in ODD)], ODD)


@pytest.mark.parametrize("kind", PIECE_KINDS)
def test_long_lines_are_read_too(kind):
    check(kind, [*PLAIN, "Z " * 3000], ["Z"])


@pytest.mark.parametrize("kind", PIECE_KINDS)
def test_all_lines_may_be_long(kind):
    check(kind, ["zo " * 2000] * 3, ["z"])


def test_characters_know_them_as_well():
    assert UNK not in build_tokens("characters", 0, ODD).encode("".join(ODD))
