import pytest

from bahdanau_jax.errors import InputError
from bahdanau_jax.sweeps.search_space import Choice, Range, parse_space, suggest


@pytest.mark.parametrize(
    ("text", "path", "what"),
    [
        (
            "train.learning_rate=1e-4..1e-2:log",
            "train.learning_rate",
            Range(1e-4, 0.01, True, False),
        ),
        ("dropout.readout=0..0.5", "train.dropout.readout", Range(0.0, 0.5, False, False)),
        ("attention.units=16..256:log", "model.attention.units", Range(16, 256, True, True)),
        ("score=additive,dot", "model.attention.score", Choice(["additive", "dot"])),
        ("seed=1,2", "seed", Choice([1, 2])),
        ("residual=true,false", "model.residual", Choice([True, False])),
        ("data.source=tsv:a..b", "data.source", Choice(["tsv:a..b"])),
    ],
)
def test_what_may_be_chosen_is_read_by_the_type_of_the_field(text, path, what):
    assert parse_space([text]) == {path: what}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["sed=1..2"], "did you mean seed?"),
        (["learning_rate"], "FIELD=v1,v2"),
        (["learning_rate=1..x"], "train.learning_rate must be float; it is 'x'"),
        (["learning_rate=2..1"], "2 must be below 1"),
        (["learning_rate=1..inf"], "a range has two ends"),
        (["learning_rate=0..1:log"], "a logarithmic range begins above 0"),
        (["seed=1..2", "seed=5,6"], "seed is tuned twice"),
    ],
)
def test_what_cannot_be_read_is_refused(texts, said):
    with pytest.raises(InputError) as caught:
        parse_space(texts)
    assert said in str(caught.value)
    assert "--tune" in str(caught.value) and "--sweep" not in str(caught.value)


class FakeTrial:
    def __init__(self):
        self.asked = []

    def suggest_float(self, *what, log):
        self.asked.append((*what, log))
        return 0.123456789

    def suggest_int(self, *what, log):
        self.asked.append((*what, log))
        return 7

    def suggest_categorical(self, *what):
        self.asked.append(what)
        return what[1][-1]


def test_a_trial_is_asked_for_every_field_and_numbers_get_four_digits():
    trial = FakeTrial()
    space = parse_space(["learning_rate=1e-4..1:log", "seed=0..9", "score=additive,dot"])
    assert suggest(trial, space) == {
        "train.learning_rate": 0.1235,
        "seed": 7,
        "model.attention.score": "dot",
    }
    assert trial.asked == [
        ("train.learning_rate", 1e-4, 1.0, True),
        ("seed", 0, 9, False),
        ("model.attention.score", ["additive", "dot"]),
    ]
