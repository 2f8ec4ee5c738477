import pytest

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import Config, EvaluationConfig
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.breakdown import sentence_sums
from bahdanau_jax.evaluation.metrics import Scoring, figures
from bahdanau_jax.evaluation.tokenizers import advice, check
from bahdanau_jax.fields import with_values

# One character in fourteen is wrong.
TEXTS = ["我们昨天在北京大学图书馆看书了", "他每天早上七点坐火车去上海上班"]
REFERENCES = [["我们昨天在北京大学图书馆看书"], ["他每天早上七点坐汽车去上海上班"]]


def test_near_right_chinese_has_bleu_by_its_own_tokeniser_alone():
    scores = {
        name: float(figures(Scoring("bleu", name), TEXTS, REFERENCES)["bleu"])
        for name in ("13a", "zh", "char")
    }
    assert scores["13a"] == 0
    assert scores["zh"] == scores["char"] > 70
    sums = sentence_sums(Scoring("bleu", "zh"), TEXTS, REFERENCES)
    assert sums["bleu"].figure() == pytest.approx(scores["zh"])
    assert "tok:zh" in str(
        figures(Scoring("bleu", "zh"), TEXTS, REFERENCES)["bleu_lowercase_signature"]
    )


@pytest.mark.parametrize(
    ("texts", "warned"),
    [
        (["the cat", "été"], False),
        (["我们昨天 ok"], True),
        (["и кот", "a"], True),
        (["λόγος and a few more words"], False),
        (["123 . !"], False),
        ([], False),
    ],
)
def test_a_warning_names_the_field_where_most_letters_are_not_latin(texts, warned):
    said = advice(EvaluationConfig(metrics="bleu"), texts)
    assert bool(said) == warned == ("evaluation.tokenize" in said)
    assert advice(EvaluationConfig(metrics="error_rate"), texts) == ""
    assert advice(EvaluationConfig(metrics="bleu", tokenize="zh"), texts) == ""


def test_every_tokeniser_works_or_says_what_is_missing():
    for name in CHOICES["evaluation.tokenize"]:
        if name == "flores200":
            continue  # its model is fetched
        try:
            check(EvaluationConfig(metrics="bleu", tokenize=name))
        except InputError as error:
            assert name.endswith("-mecab")
            assert f"evaluation.tokenize={name} can't be used here: " in str(error)
            assert "\n" not in str(error)


def test_it_has_no_effect_on_error_rates():
    config = with_values(Config(), {"evaluation.metrics": "error_rate"})
    assert "evaluation.tokenize" in ineffective(config)
    assert "evaluation.tokenize" not in ineffective(Config())
