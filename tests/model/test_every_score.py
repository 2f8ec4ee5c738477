"""What a new score needs, each place by its name, so that none is forgotten."""

import inspect
import re
from pathlib import Path

import combinations
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from reference_parameters import attention_shapes, random_parameters

import bahdanau_jax
from bahdanau_jax.allowed import CHOICES, SCORES
from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import scores
from bahdanau_jax.model.initialization import initialization
from bahdanau_jax.model.scores import Score, score_class, score_cost
from bahdanau_jax.modes.origins import ORIGINS

PACKAGE = Path(bahdanau_jax.__file__).parent
every = pytest.mark.parametrize("score", CHOICES["model.attention.score"])


def model(score: str) -> ModelConfig:
    return combinations.build({"encoder.bidirectional": True, "attention.score": score})


@every
def test_it_has_a_class(score: str) -> None:
    if score != "fixed":  # the encoder's last states: no energies
        assert issubclass(score_class(score), Score)


def test_every_class_of_a_score_has_a_row_in_the_table() -> None:
    classes = {x for x in vars(scores).values() if inspect.isclass(x) and issubclass(x, Score)}
    shared = {base for each in classes for base in each.__bases__}
    named = {score_class(score) for score in SCORES if score != "fixed"}
    assert classes - shared - named == set(), "add a row to SCORES in allowed.py"


@every
def test_it_has_an_equation(score: str) -> None:
    if score == "fixed":
        return
    config = model(score)
    H, C = config.decoder.units, config.annotation_units
    module = score_class(score)(config.attention, H, C, initialization("glorot"))
    query, annotations = jnp.zeros((2, H)), jnp.zeros((2, 3, C))

    def energies(module: Score) -> jax.Array:
        return module(query, module.keys(annotations))

    shape, _ = jax.eval_shape(nn.init_with_output(energies, module), jax.random.key(0))
    assert shape.shape == (2, 3)


@every
def test_it_has_its_work(score: str) -> None:
    assert (sum(score_cost(model(score))) > 0) == (score not in ("uniform", "fixed"))


@every
def test_it_has_an_oracle(score: str) -> None:
    config = model(score)
    width = config.annotation_units
    params = random_parameters(attention_shapes(config, width), np.random.default_rng(0))
    query, annotations = np.ones(config.decoder.units), np.ones((3, width))
    alignment, context = reference.attend(params, config, query, annotations, 0, np.zeros(3))
    assert alignment.shape == (3,) and context.shape == (width,)


@every
def test_it_says_where_it_comes_from(score: str) -> None:
    assert ORIGINS["model.attention.score"][score] == SCORES[score].origin != ""


def test_no_other_file_of_the_package_names_every_score() -> None:
    """A new score touches three files; those that name some mean something special of these."""
    naming = {}
    for path in PACKAGE.rglob("*.py"):
        words = set(re.findall(r"[a-z_]+", path.read_text(encoding="utf-8")))
        naming[path.relative_to(PACKAGE).as_posix()] = words >= SCORES.keys() - {"fixed", "uniform"}
    assert {path for path, all_of_them in naming.items() if all_of_them} == {
        "model/scores.py",
        "allowed.py",
    }


@every
def test_a_score_that_the_fast_loop_does_not_know_says_so(score: str) -> None:
    if score != "fixed" and score_class(score).IN_LOOP:
        assert score_class(score).weights is not Score.weights, "say IN_LOOP = False in scores.py"


@every
def test_its_options_are_fields(score: str) -> None:
    assert set(SCORES[score].options) <= set(vars(ModelConfig().attention))


def test_an_unknown_score_is_refused_by_name_and_never_counted_as_nothing() -> None:
    config = model("additive")
    config.attention.score = "telepathy"
    with pytest.raises(ValueError, match="telepathy"):
        score_class("telepathy")
    with pytest.raises(ValueError, match="telepathy"):
        score_cost(config)
