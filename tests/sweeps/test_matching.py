import jax
import pytest
import tiny

from bahdanau_jax.errors import InputError
from bahdanau_jax.sweeps import grid
from bahdanau_jax.sweeps.matching import CLOSE, ParameterCounter, match_parameters


@pytest.fixture
def cells(corpus):
    base = tiny.config(corpus)
    base.model.encoder.bidirectional, base.model.initial_state = False, "final"
    base.model.attention.units = 40
    return grid.expand(base, ["score=additive,projected,dot", "seed=0"])


def silent(_):
    pass


def test_the_counter_counts_what_is_trained(trained):
    from bahdanau_jax.evaluation.trained_run import open_run

    params = open_run(trained.directory).params
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert ParameterCounter(silent)(trained.config) == count


def test_alternatives_get_the_parameters_of_the_first(cells):
    matched, matches = match_parameters(cells, "params", silent)
    count = ParameterCounter(silent)
    target = count(cells[0].config)
    assert [cell.name for cell in matched] == [cell.name for cell in cells]
    assert matched[0] == cells[0]
    for cell, match in zip(matched, matches, strict=True):
        assert match.parameters == count(cell.config)
        assert match.target == target
        assert abs(match.parameters - target) <= max(CLOSE * target, 60)
    # Its own field where it has one; dot has none, and gets a larger readout.
    assert [match.field for match in matches[1:]] == [
        "model.attention.units",
        "model.readout_units",
    ]
    assert matched[1].matched["model.attention.units"] == matches[1].new > 40
    assert matched[2].config.model.readout_units == matches[2].new > 16
    assert f"--config.model.readout_units={matches[2].new}" in matched[2].arguments()


def test_how_is_said_in_words(cells):
    _, matches = match_parameters(cells, "params:model.readout_units", silent)
    assert matches[0].sentence().startswith("score=additive,seed=0: unchanged, ")
    said = matches[2].sentence()
    assert said.startswith(f"score=dot,seed=0: model.readout_units 16 → {matches[2].new}, ")
    assert f"against {matches[0].target:,}" in said


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("flops", "must be params or params:FIELD"),
        ("params:no_such", "unknown configuration field"),
        ("params:train.learning_rate", "must be a whole number that isn't swept"),
        ("params:seed", "must be a whole number that isn't swept"),
    ],
)
def test_what_cannot_be_matched_is_refused(cells, how, said):
    with pytest.raises(InputError) as caught:
        match_parameters(cells, how, silent)
    assert said in str(caught.value)
