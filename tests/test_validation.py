import dataclasses
import inspect
import math
import re
import sys

import pytest

from bahdanau_jax import validation
from bahdanau_jax.allowed import CHOICES, RANGES
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths, field_type, from_json, to_json, with_values
from bahdanau_jax.validation import validate

# Neither a choice nor a number with a range: names, paths and switches.
FREE = {
    "data.source",
    "data.source_language",
    "data.target_language",
    "data.directory",
    "data.lowercase",
    "data.train_links",
    "data.vocabulary.joint",
    "decode.suppress_unk",
    "model.encoder.bidirectional",
    "model.attention.bias",
    "model.attention.normalize",
    "model.attention.normalize_keys",
    "model.attention.coverage",
    "model.attention.renormalize",
    "model.reverse_source",
    "model.residual",
}

FEEDING = {"model.attention.query": "current", "model.readout": "attentional"}

# What is refused, what the message must say, and each of the ways out that it names.
REFUSED = [
    (
        {"decode.min_length_ratio": 2.5},
        ["decode.min_length_ratio=2.5", "decode.max_length_ratio=2.0", "lower it"],
        [{"decode.min_length_ratio": 2.0}, {"decode.max_length_ratio": 3.0}],
    ),
    (
        {"model.attention.score": "dot"},
        ["model.attention.score=dot", "decoder.units is 256", "have 512", "general", "projected"],
        [
            {"model.decoder.units": 512},
            {"model.attention.score": "general"},
            {"model.attention.score": "projected"},
        ],
    ),
    (
        {"model.attention.score": "dot", "model.decoder.units": 512}
        | {"model.encoder.bidirectional": False, "model.initial_state": "mean"},
        ["decoder.units is 512", "have 256", "model.decoder.units=256"],
        [{"model.decoder.units": 256}],
    ),
    (
        {"model.attention.scale": "sqrt"},
        ["model.attention.scale=sqrt", "model.attention.score=additive", "none"],
        [{"model.attention.scale": "none"}],
    ),
    (
        {"model.attention.score": "general", "model.attention.bias": True},
        ["model.attention.bias", "general", "false"],
        [{"model.attention.bias": False}],
    ),
    (
        {"model.attention.score": "projected", "model.attention.normalize": True},
        ["model.attention.normalize", "projected", "false"],
        [{"model.attention.normalize": False}],
    ),
    (
        {"model.attention.score": "concat_identity", "model.attention.normalize_keys": True},
        ["model.attention.normalize_keys", "concat_identity", "additive and dot", "false"],
        [{"model.attention.normalize_keys": False}, {"model.attention.score": "general"}],
    ),
    (
        {"model.attention.normalize_keys": True, "model.attention.units": 1},
        ["model.attention.normalize_keys", "only one", "raise model.attention.units"],
        [{"model.attention.units": 2}],
    ),
    (
        {"model.attention.normalize_keys": True, "model.attention.score": "general"}
        | {"model.encoder.units": 1, "model.encoder.bidirectional": False}
        | {"model.initial_state": "final"},
        ["model.attention.normalize_keys", "only one", "raise model.encoder.units"],
        [{"model.encoder.units": 2}],
    ),
    (
        {"model.attention.normalize": True, "model.initialization": "paper"},
        ["model.attention.normalize", "model.initialization=paper", "another"],
        [{"model.initialization": "glorot"}, {"model.initialization": "uniform"}],
    ),
    (
        {"model.attention.coverage": True, "model.attention.score": "concat"},
        ["model.attention.coverage", "concat", "false"],
        [{"model.attention.coverage": False}],
    ),
    (
        {"model.attention.window": "local_m", "model.attention.score": "uniform"},
        ["model.attention.score=uniform", "model.attention.window=global"],
        [{"model.attention.window": "global"}],
    ),
    (
        {"model.attention.window": "local_p", "model.attention.score": "fixed"},
        ["model.attention.score=fixed", "model.attention.window=global"],
        [{"model.attention.window": "global"}],
    ),
    (
        {"model.attention.renormalize": False},
        ["model.attention.renormalize=false", "model.attention.window=local_p", "true"],
        [{"model.attention.renormalize": True}, {"model.attention.window": "local_p"}],
    ),
    (
        {"model.feeding": "attentional", "model.readout": "attentional"},
        ["model.feeding=attentional", "model.attention.query=current", "previous", "none"],
        [{"model.attention.query": "current"}, {"model.feeding": "none"}],
    ),
    (
        {"model.feeding": "attentional", "model.attention.query": "current"},
        ["model.feeding=attentional", "model.readout=attentional", "maxout"],
        [{"model.readout": "attentional"}],
    ),
    (
        {"model.readout": "linear", "model.attention.query": "current"},
        ["model.readout=linear", "model.attention.query=current", "attentional", "maxout"],
        [
            {"model.readout": "attentional"},
            {"model.readout": "maxout"},
            {"model.feeding": "context"},
        ],
    ),
    (
        {"model.readout_parts": "state"},
        ["model.readout_parts=state", "model.readout=tanh", "maxout", "state_word_context"],
        [{"model.readout": "tanh"}, {"model.readout_parts": "state_word_context"}],
    ),
    (
        {"model.readout": "tanh", "model.readout_parts": "state_word"}
        | {"model.attention.query": "current"},
        ["model.readout=tanh", "model.readout_parts=state_context"],
        [{"model.readout_parts": "state_context"}, {"model.feeding": "context"}],
    ),
    (
        {"model.encoder.bidirectional": False},
        ["model.initial_state=backward", "model.encoder.bidirectional=false", "final"],
        [{"model.initial_state": name} for name in ("final", "mean", "zero")],
    ),
    (
        {"model.initial_state": "layers", "model.decoder.layers": 2},
        ["model.initial_state=layers", "model.encoder.layers is 1", "model.decoder.layers is 2"],
        [
            {"model.encoder.layers": 2},
            {"model.decoder.layers": 1},
            {"model.initial_state": "final"},
        ],
    ),
    (
        {"model.initial_state": "layers", "model.decoder.units": 100},
        ["model.initial_state=layers", "model.encoder.units is 256", "model.decoder.units is 100"],
        [
            {"model.encoder.units": 100},
            {"model.decoder.units": 256},
            {"model.initial_state": "final"},
        ],
    ),
    (
        {"model.tie_embeddings": "output", "model.embedding": 100},
        ["model.tie_embeddings", "(100)", "128", "model.embedding", "model.readout_units"],
        [{"model.embedding": 128}, {"model.readout_units": 100}],
    ),
    (
        {"model.tie_embeddings": "output", "model.readout": "linear"},
        ["model.tie_embeddings=output", "(128)", "256", "model.embedding", "model.decoder.units"],
        [{"model.embedding": 256}, {"model.decoder.units": 128}],
    ),
    *(
        (
            {"model.layer_norm": value, f"model.{side}.units": 1},
            [f"model.layer_norm={value}", f"model.{side}.units", f"leave the {side} out"],
            [{f"model.{side}.units": 2}, {"model.layer_norm": other}],
        )
        for value, side, other in (
            ("both", "encoder", "decoder"),
            ("both", "decoder", "encoder"),
            ("encoder", "encoder", "none"),
            ("decoder", "decoder", "none"),
        )
    ),
    (
        {"model.residual": True},
        ["model.residual", "false", "model.encoder.layers", "model.decoder.layers"],
        [{"model.residual": False}, {"model.encoder.layers": 2}, {"model.decoder.layers": 2}],
    ),
    (
        {"model.cell": "lstm", "model.gru_reset": "after"},
        ["model.gru_reset", "model.cell=lstm", "before"],
        [{"model.gru_reset": "before"}],
    ),
    (
        {"model.forget_bias": 1},
        ["model.forget_bias=1", "model.cell=gru", "set it to 0"],
        [{"model.forget_bias": 0}, {"model.cell": "lstm"}],
    ),
    (
        {"data.source": ""},
        ["data.source", "tfds:NAME", "text:DIR", "tsv:DIR"],
        [{"data.source": "tfds:a/b"}, {"data.source": "text:a"}],
    ),
    (
        {"data.vocabulary.size": 0},
        ["data.vocabulary.size=0", "bpe", "8000"],
        [{"data.vocabulary.size": 8000}],
    ),
    (
        {"data.vocabulary.kind": "words", "data.vocabulary.size": 0}
        | {"data.vocabulary.target_kind": "unigram"},
        ["data.vocabulary.size=0", "unigram", "8000"],
        [{"data.vocabulary.size": 8000}, {"data.vocabulary.target_size": 8000}],
    ),
    (
        {"data.vocabulary.kind": "words", "data.vocabulary.size": 4},
        ["vocabulary of 4 entries", "give 0 or more than 4"],
        [{"data.vocabulary.size": 0}, {"data.vocabulary.size": 5}],
    ),
    (
        {"data.vocabulary.target_size": 3},
        ["vocabulary of 3 entries", "more than 4"],
        [{"data.vocabulary.target_size": 0}, {"data.vocabulary.target_size": 5}],
    ),
    (
        {"model.tie_embeddings": "all"},
        ["model.tie_embeddings=all", "data.vocabulary.joint=true", "model.tie_embeddings=output"],
        [{"data.vocabulary.joint": True}, {"model.tie_embeddings": "output"}],
    ),
    (
        {"data.vocabulary.joint": True, "data.vocabulary.target_kind": "words"},
        ["data.vocabulary.joint", "data.vocabulary.target_kind empty"],
        [{"data.vocabulary.target_kind": ""}],
    ),
    (
        {"data.vocabulary.joint": True, "data.vocabulary.target_size": 4000},
        ["data.vocabulary.joint", "data.vocabulary.target_size at 0"],
        [{"data.vocabulary.target_size": 0}],
    ),
    (
        {"train.learning_rate": 0.0},
        ["train.learning_rate is 0"],
        [{"train.learning_rate": 1e-9}],
    ),
    (
        {"train.schedule": "halving", "train.epochs": 8.0},
        ["train.decay_start=8", "train.epochs=8", "lower"],
        [{"train.decay_start": 7.5}, {"train.epochs": 9.0}],
    ),
    (
        {"data.pool": 20, "train.batch_tokens": 4000},
        ["data.pool=20", "train.batch_tokens=4000", "set one of them to 0"],
        [{"data.pool": 0}, {"train.batch_tokens": 0}],
    ),
    (
        {"train.coverage": 1.0, "model.attention.score": "uniform"},
        ["train.coverage=1.0", "model.attention.score=uniform", "set it to 0", "another score"],
        [{"train.coverage": 0.0}, {"model.attention.score": "additive"}],
    ),
    (
        {"train.guide": 0.5, "data.train_links": "links", "model.attention.score": "fixed"},
        ["train.guide=0.5", "model.attention.score=fixed", "set it to 0", "another score"],
        [{"model.attention.score": "general"}, {"train.guide": 0.0, "data.train_links": ""}],
    ),
    (
        {"train.guide": 0.5},
        ["train.guide=0.5 needs links", "data.train_links=FILE", "set it to 0"],
        [{"data.train_links": "links"}, {"train.guide": 0.0}],
    ),
    (
        {"data.train_links": "links"},
        ["data.train_links=links", "train.guide=0", "a weight", "leave data.train_links empty"],
        [{"train.guide": 0.1}, {"data.train_links": ""}],
    ),
    ({"train.decay_factor": 0.0}, ["train.decay_factor"], [{"train.decay_factor": 0.1}]),
    (
        {"train.warmup_steps": 10_000},
        ["train.warmup_steps=10000", "train.steps=10000", "lower"],
        [{"train.warmup_steps": 9_999}],
    ),
    (
        {"train.metric": "per"},
        ["train.metric=per", "evaluation.metrics=bleu", "nll_per_token", "chrf"],
        [{"train.metric": name} for name in ("nll_per_token", "bleu", "chrf", "ter")],
    ),
    (
        {"train.metric": "bleu", "evaluation.metrics": "error_rate"},
        ["train.metric=bleu", "evaluation.metrics=error_rate", "wer"],
        [{"train.metric": name} for name in ("nll_per_token", "per", "wer", "exact_match")],
    ),
]


def made(changes):
    config = Config()
    config.data.source = "tsv:somewhere"
    for path, value in changes.items():
        *sections, name = path.split(".")
        section = config
        for part in sections:
            section = getattr(section, part)
        assert hasattr(section, name), path
        setattr(section, name, value)
    return config


def refusal(changes):
    with pytest.raises(InputError) as caught:
        validate(made(changes))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_defaults_with_a_source_are_valid():
    validate(made({}))


@pytest.mark.parametrize(("changes", "says", "fixes"), REFUSED)
def test_what_cannot_work_is_refused_in_words_and_each_way_out_works(changes, says, fixes):
    message = refusal(changes)
    assert [part for part in says if part not in message] == [], message
    for fix in fixes:
        validate(made(changes | fix))


def test_every_refusal_between_fields_has_an_example_above(monkeypatch):
    reached, fired = set(), set()

    def record(wrong, message):
        line = sys._getframe(1).f_lineno
        reached.add(line)
        if wrong:
            fired.add(line)
            raise InputError(message)

    monkeypatch.setattr(validation, "_refuse", record)
    validate(made({}))
    for changes, _, _ in REFUSED:
        refusal(changes)
    calls = re.findall(r"^ +_refuse\($|^ +_refuse\(\w", inspect.getsource(validation), re.M)
    assert len(reached) == len(calls)
    assert fired == reached


def test_every_field_has_a_rule_or_is_known_to_need_none():
    assert set(CHOICES) | set(RANGES) | FREE == set(field_paths())
    assert len(CHOICES) + len(RANGES) + len(FREE) == len(field_paths())


@pytest.mark.parametrize("path", CHOICES)
def test_another_choice_is_refused_with_the_choices_listed(path):
    message = refusal({path: "none of them"})
    assert message.startswith(f"{path} must be one of")
    assert "'none of them'" in message
    for name in CHOICES[path]:
        assert name in message


# Their names stand in one table of allowed.py, so that a new row needs no word elsewhere.
TABLES = {"model.attention.score": "allowed.SCORES", "train.metric": "evaluation.metrics"}


@pytest.mark.parametrize("path", CHOICES)
def test_the_choices_are_those_that_the_comment_behind_the_field_lists(path):
    source = inspect.getsource(sys.modules[Config.__module__]).splitlines()
    section, name = ["", *path.split(".")][-2:]
    classes = {"": "Config", "vocabulary": "VocabularyConfig", "attention": "AttentionConfig"}
    start = source.index(f"class {classes.get(section, section.capitalize() + 'Config')}:")
    line = next(n for n in range(start, len(source)) if source[n].startswith(f"    {name}: "))
    comment = source[line].partition("#")[2] + "".join(
        text for text in source[line + 1 : line + 3] if text.lstrip().startswith("#")
    )
    named = [x for x in CHOICES[path] if re.search(rf"\b{x}\b", comment)]
    if path in TABLES:
        assert set(named) <= {"nll_per_token"} and TABLES[path] in "\n".join(source)
    elif "same names" not in comment:
        assert named == [*CHOICES[path]]


@pytest.mark.parametrize("path", RANGES)
def test_numbers_out_of_range_are_refused_with_the_range(path):
    least, limit = RANGES[path]
    is_float = isinstance(field_value(Config(), path), float)
    kind = float if is_float else int
    wrong = [kind(least - 1)]
    wrong += [kind(limit), kind(limit + 1)] if limit is not None else []
    wrong += [math.nan, math.inf, -math.inf] if is_float else []
    for value in wrong:
        message = refusal({path: value})
        assert message.startswith(f"{path} must be at least {least}")
        assert str(value) in message
        assert limit is None or f"below {limit}" in message


def field_value(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize("path", field_paths())
def test_a_value_of_another_type_is_refused(path):
    kind = type(field_value(Config(), path))
    wrong = {int: [1.0, True, "1", None], float: ["1", True, None], bool: [1, "true", None]}
    for value in wrong.get(kind, [1, None, ("a",)]):
        assert refusal({path: value}).startswith(f"{path} must be {kind.__name__}; it is ")


def test_a_whole_number_will_do_for_a_real_one():
    validate(made({"train.learning_rate": 1, "train.clip_norm": 5}))


def test_a_name_that_an_experiment_file_misspells_is_refused_with_the_nearest():
    config = made({})
    config.train.stepps = 5  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"train\.stepps; did you mean train\.steps\?"):
        validate(config)


def test_a_section_of_another_kind_is_refused():
    config = made({})
    config.model.attention = {"score": "dot"}  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"model\.attention must be AttentionConfig; it is"):
        validate(config)


def test_validation_changes_nothing():
    config = made({})
    before = dataclasses.replace(from_json(to_json(config)))
    validate(config)
    assert config == before


BEYOND = [f for f in RANGES if field_type(f) in (int, float)]


@pytest.mark.parametrize("field", BEYOND)
@pytest.mark.parametrize("value", [10**20, 1e300, math.nan, math.inf, -math.inf])
def test_a_value_beyond_reason_is_refused_by_name(field, value):
    if field_type(field) is int:
        value = int(value) if math.isfinite(value) else 10**20
    with pytest.raises(InputError, match=field):
        validate(with_values(Config(), {field: value}))


def test_every_number_has_a_range():
    assert {f for f in field_paths() if field_type(f) in (int, float)} == {*RANGES}
