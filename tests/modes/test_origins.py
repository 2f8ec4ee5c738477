import importlib
from pathlib import Path

import pytest

from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import Config
from bahdanau_jax.fields import field_paths, from_json, to_json
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.modes.origins import FOLLOWED, LUONG, ORIGINS, OURS, PAPER, choices
from bahdanau_jax.modes.work import Size, step_work
from bahdanau_jax.validation import validate

ROOT = Path(__file__).parents[2]
EXPERIMENTS = sorted(p.stem for p in (ROOT / "experiments").glob("*.py") if p.stem != "__init__")
# Beside the model these say how often to look and when to stop, not what is learnt.
# How a step is computed and watched; what is computed has its origins.
BOOKKEEPING = {"eval_every", "checkpoint_every", "log_every", "patience", "metric", "max_skipped"}
BOOKKEEPING |= {"kernels", "accumulate", "precision", "keep", "keep_best", "decode.batch_size"}


def experiment(name: str) -> Config:
    return importlib.import_module(f"experiments.{name}").get_config()


def test_every_field_of_model_training_and_search_has_its_origins():
    wanted = [
        path
        for path in field_paths()
        if path.startswith(("model.", "train.", "decode."))
        and not {path, path.rsplit(".", 1)[-1]} & BOOKKEEPING
    ]
    assert sorted(wanted) == sorted(path for path in ORIGINS if not path.startswith("data."))
    assert set(ORIGINS) <= set(field_paths())


def test_every_named_value_says_where_it_stands():
    for field in set(ORIGINS) & set(CHOICES):
        assert set(ORIGINS[field]) == set(CHOICES[field])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_valid_and_says_command_hardware_time_and_result(name):
    config = experiment(name)
    assert isinstance(config, Config)
    validate(config)
    header = importlib.import_module(f"experiments.{name}").__doc__
    assert header
    if name == "cmudict":
        assert "python launch.py\n" in header  # the default
    else:
        assert f"python launch.py --config=experiments/{name}.py\n" in header
    for part in ("\nHardware: ", "\nTime: ", "\nExpect: "):
        assert part in header


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_two_calls_give_equal_configurations_that_are_not_one(name):
    first, second = experiment(name), experiment(name)
    assert first == second
    first.model.encoder.units += 1
    assert first != second


@pytest.mark.parametrize("name", ["rnnsearch_50", "groundhog_rnnsearch", "rnnencdec_50"])
def test_the_papers_models_are_the_papers_in_every_choice(name):
    # The paper's text says none of these; its code does.
    unsaid = {"model.initial_state", "model.feeding", "train.normalize"}
    unsaid |= {f"decode.{name}" for name in ("beam_size", "min_length_ratio", "max_length_ratio")}
    for choice in choices(experiment(name)):
        assert PAPER in choice.origin or choice.field in unsaid, choice


def test_luongs_model_is_luongs_in_every_choice_that_the_fields_can_say():
    others = {
        choice.field: choice.value
        for choice in choices(experiment("luong_2015"))
        if LUONG not in choice.origin and not choice.field.startswith("decode.")
    }
    assert others == {
        "data.vocabulary.kind": "words",  # as in the other paper
        "model.forget_bias": 0,  # the paper doesn't say; its code has none
        "model.initial_state": "layers",  # its code's
        "model.tie_embeddings": "none",
        "model.layer_norm": "none",
        "train.normalize": "sentences",  # its code's; the paper doesn't say
        "train.weight_decay": 0.0,
        "train.warmup_steps": 0,
        "train.average": 0.0,
        "train.label_smoothing": 0.0,
        "train.guide": 0.0,
        "train.coverage": 0.0,
        "train.dropout.source_words": 0.0,
        "train.dropout.target_words": 0.0,
        "train.dropout.states": 0.0,
        "train.dropout.annotations": 0.0,
        "train.dropout.readout": 0.0,
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_paper_is_named_only_by_an_experiment_that_follows_it(name):
    config = experiment(name)
    for paper, known in FOLLOWED.items():
        named = any(known in choice.origin for choice in choices(config))
        assert named == (config.follows == paper)
    # The same values without that word are nobody's.
    config.follows = ""
    origins = {choice.field: choice.origin for choice in choices(config)}
    assert not any(PAPER in origin or LUONG in origin for origin in origins.values())
    assert (
        origins["train.batch_size" if config.train.batch_tokens == 0 else "data.max_length"] == OURS
    )


def test_what_an_experiment_follows_survives_in_its_recorded_configuration():
    config = from_json(to_json(experiment("rnnencdec_50")))
    assert config.follows == "bahdanau_2014"
    config.model.embedding = 1000  # Luong's
    origins = {choice.field: choice.origin for choice in choices(config)}
    assert origins["model.embedding"] == OURS
    assert origins["model.encoder.units"] == "Bahdanau et al. 2014, A.2.3: n"
    config.follows = ""
    origins = {choice.field: choice.origin for choice in choices(config)}
    assert origins["model.readout"] == "U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, by pairs"
    assert origins["train.optimizer"] == "ρ = 0.95, ε = 1e-6 (Zeiler 2012)"


def test_a_value_that_nobody_published_is_this_projects():
    config = experiment("rnnsearch_50")
    config.model.embedding = 621
    config.train.label_smoothing = 0.1
    origins = {choice.field: choice.origin for choice in choices(config)}
    assert origins["model.embedding"] == OURS
    assert origins["train.label_smoothing"] == "Szegedy et al. 2016, 7"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_left_out_has_no_effect_on_shapes_or_work(name):
    jax = pytest.importorskip("jax")
    from bahdanau_jax.modes.explain import parameter_counts

    config, size = experiment(name), Size(rows=2, source=5, target=6, vocabulary=11)
    shown = {choice.field for choice in choices(config)}
    before = parameter_counts(Seq2Seq(config.model, 10, 11)), step_work(config.model, size)
    model, attention = config.model, config.model.attention
    if "model.attention.units" not in shown:
        attention.units += 1
    if "model.attention.half_width" not in shown:
        attention.half_width += 1
    if "model.readout_units" not in shown:
        model.readout_units += 1
    if "model.gru_reset" not in shown:
        model.gru_reset = "after"
    if "model.residual" not in shown:
        model.residual = True
    after = parameter_counts(Seq2Seq(config.model, 10, 11)), step_work(config.model, size)
    assert after == before
    assert jax is not None
