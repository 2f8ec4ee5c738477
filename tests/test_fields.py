import dataclasses
import json

import pytest

from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import differences, field_paths, from_json, to_dict, to_json, unknown_field


def other_value(value):
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else value + 1


def set_field(config, path, value):
    *sections, name = path.split(".")
    for section in sections:
        config = getattr(config, section)
    assert hasattr(config, name)
    setattr(config, name, value)


def get_field(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.parametrize("path", field_paths())
def test_every_field_survives_json(path):
    config = Config()
    changed = other_value(get_field(config, path))
    set_field(config, path, changed)
    read = from_json(to_json(config))
    assert read == config != Config()
    assert type(get_field(read, path)) is type(changed)


def test_json_is_an_object_whose_fields_come_in_the_order_of_their_definition():
    assert list(json.loads(to_json(Config()))) == [f.name for f in dataclasses.fields(Config)]
    model = json.loads(to_json(Config()))["model"]
    assert list(model) == [f.name for f in dataclasses.fields(ModelConfig)]


def test_text_that_is_not_ascii_stays_readable():
    config = Config()
    config.data.source = "text:größe"
    assert "größe" in to_json(config)


def test_absent_fields_have_their_defaults():
    assert from_json("{}") == Config()
    config = from_json('{"model": {"attention": {"score": "dot"}}}')
    assert config.model.attention.score == "dot"
    config.model.attention.score = Config().model.attention.score
    assert config == Config()


def test_two_configurations_share_no_section():
    first, second = Config(), Config()
    first.model.attention.units += 1
    assert second == Config()
    to_dict(first)["model"]["attention"]["units"] += 1
    assert first.model.attention.units == Config().model.attention.units + 1


def test_whole_numbers_are_numbers_but_truth_is_not():
    config = from_json('{"train": {"learning_rate": 1}}')
    assert type(config.train.learning_rate) is float
    for value in ("1.0", "true", '"1"', "null", "[1]"):
        with pytest.raises(InputError, match=r"train\.steps must be int, not"):
            from_json(f'{{"train": {{"steps": {value}}}}}')
    for value in ("true", '"1"', "null"):
        with pytest.raises(InputError, match=r"train\.learning_rate must be float, not"):
            from_json(f'{{"train": {{"learning_rate": {value}}}}}')
    with pytest.raises(InputError, match=r"model\.residual must be bool, not 1"):
        from_json('{"model": {"residual": 1}}')


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"seed": 1} {}'])
def test_text_that_is_no_json_is_an_input_error(text):
    with pytest.raises(InputError, match="not valid JSON"):
        from_json(text)


@pytest.mark.parametrize(
    ("text", "where"),
    [("[]", "the top level"), ("3", "the top level"), ('{"model": {"attention": 5}}', "attention")],
)
def test_what_is_no_object_of_fields_is_an_input_error(text, where):
    with pytest.raises(InputError, match=f"{where} must be an object of fields"):
        from_json(text)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("sed", "seed"),
        ("data.sed", "data.seed"),
        ("model.atention.score", "model.attention.score"),
        ("model.attention.scor", "model.attention.score"),
        ("attention.score", "model.attention.score"),
        ("train.lerning_rate", "train.learning_rate"),
        ("learning_rate", "train.learning_rate"),
        ("train.dropout.embeddings", "train.dropout.embedding"),
        ("decode.batchsize", "decode.batch_size"),
    ],
)
def test_an_unknown_field_names_the_nearest(wrong, nearest):
    assert unknown_field(wrong).endswith(f"did you mean {nearest}?")
    nested = "1"
    for name in reversed(wrong.split(".")):
        nested = f'{{"{name}": {nested}}}'
    with pytest.raises(InputError, match="unknown configuration field"):
        from_json(nested)


def test_paths_are_those_of_the_leaves():
    nested = to_dict(Config())

    def leaves(value, prefix):
        if not isinstance(value, dict):
            return [prefix]
        return [x for k, v in value.items() for x in leaves(v, f"{prefix}.{k}" if prefix else k)]

    assert field_paths() == leaves(nested, "")
    assert field_paths(ModelConfig, "model.")[0] == "model.cell"


@pytest.mark.parametrize("value", ["auto", "xla"])
def test_a_field_that_is_gone_is_still_read_where_it_changes_nothing(value):
    assert from_json(f'{{"model": {{"attention": {{"kernel": "{value}"}}}}}}') == Config()


def test_a_field_that_is_gone_is_refused_where_it_meant_something_else():
    with pytest.raises(InputError, match=r"model\.attention\.kernel is 'pallas'.* auto"):
        from_json('{"model": {"attention": {"kernel": "pallas"}}}')


@pytest.mark.parametrize(("written", "today"), [(False, "none"), (True, "attentional")])
def test_a_field_that_has_another_name_today_is_read_from_older_runs(written, today):
    config = Config()
    config.model.feeding = today
    recorded = to_dict(config)
    del recorded["model"]["feeding"]
    recorded["model"]["input_feeding"] = written
    assert from_json(json.dumps(recorded)) == config
    assert differences(recorded, config) == {}
    other = Config()
    other.model.feeding = "context"
    assert differences(recorded, other) == {"model.feeding": [today, "context"]}
    assert recorded["model"]["input_feeding"] == written


def test_a_field_that_was_a_switch_is_read_from_older_runs_where_it_means_the_same():
    recorded = to_dict(Config())
    recorded["model"]["layer_norm"] = recorded["model"]["tie_embeddings"] = False
    assert from_json(json.dumps(recorded)) == Config()
    assert differences(recorded, Config()) == {}
    recorded["model"]["tie_embeddings"], tied = True, Config()
    tied.model.tie_embeddings = "output"
    assert from_json(json.dumps(recorded)) == tied
    assert differences(recorded, Config()) == {"model.tie_embeddings": ["output", "none"]}
    recorded["model"]["layer_norm"] = True
    with pytest.raises(InputError, match=r"layer_norm is True, but .*statistics.*train anew") as e:
        from_json(json.dumps(recorded))
    assert "\n" not in str(e.value)


def test_a_value_that_an_older_run_cannot_have_written_is_refused():
    with pytest.raises(InputError, match=r"model\.input_feeding is 1, but .*true or false"):
        from_json('{"model": {"input_feeding": 1}}')
