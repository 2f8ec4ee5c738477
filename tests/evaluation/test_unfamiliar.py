"""What the training text didn't have is told, by every mode that is given text."""

import io

import pytest

from bahdanau_jax.data.vocabularies import build
from bahdanau_jax.evaluation.given_pairs import GivenTexts
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.evaluation.unfamiliar import Unfamiliar
from bahdanau_jax.modes.align import Drawing, align
from bahdanau_jax.modes.score import score
from bahdanau_jax.modes.translate import translate

PAIRS = [("FED", "F E D"), ("fed", "F E D"), ("fxd", "F X D")]  # 3 + 0 + 1 and 0 + 0 + 1 unknown


@pytest.fixture(scope="module")
def run(trained):
    return open_run(trained.directory, "best")


def given_to(mode, run, pairs, tmp_path):
    if mode == "translate":
        translate(run, io.BytesIO("".join(f"{s}\n" for s, _ in pairs).encode()), io.StringIO())
    elif mode == "score":
        score(run, pairs, io.StringIO())
    else:
        align(run, GivenTexts(pairs), io.StringIO(), Drawing(tmp_path, 0))


@pytest.mark.parametrize(
    ("mode", "said"), [("translate", "4 of 9"), ("score", "5 of 18"), ("align", "5 of 18")]
)
def test_unknown_symbols_are_counted_in_one_line(run, mode, said, tmp_path, capsys):
    given_to(mode, run, PAIRS, tmp_path)
    (warning,) = (x for x in capsys.readouterr().err.splitlines() if "unknown to the model" in x)
    assert warning.startswith(f"warning: {said} tokens are unknown")
    assert "'x'" in warning and ("'X'" in warning) == (mode != "translate")
    given_to(mode, run, PAIRS[1:2], tmp_path)
    assert "unknown" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["words", "symbols", "characters", "bpe", "unigram"])
def test_the_words_that_are_named_have_the_unknown_symbols(kind, capsys):
    vocabulary = build(kind, 9 if kind in ("bpe", "unigram") else 0, ["ab b", "b", "ab", "a"])
    unfamiliar = Unfamiliar(10, "line")
    for text in ("ab b", "ab zz b zz", "ab ab ab ab ab ab ab ab ab ab ab ab ab"):
        unfamiliar.add((vocabulary, text, vocabulary.encode(text)))
    unfamiliar.tell()
    longer, unknown = capsys.readouterr().err.splitlines()
    assert longer.endswith("saw at most: 1 line")
    assert ("'z'" if kind == "characters" else "'zz'") in unknown
    assert "'b'" not in unknown and "'ab'" not in unknown
