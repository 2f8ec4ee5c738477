import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import apply
from reference_parameters import parameter_shapes, random_parameters

from bahdanau_jax.config import EncoderConfig, ModelConfig
from bahdanau_jax.model.cells import make_cell
from bahdanau_jax.model.encoder import Encoder, reading_order, recur

SOURCE = np.array([[4, 5, 6, 7, 2, 0], [5, 2, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0], [0] * 6])
MASK = SOURCE > 0
FORMS: dict[str, dict[str, Any]] = {
    "paper": {},
    "after": {"gru_reset": "after"},
    "lstm": {"cell": "lstm"},
    "one direction": {"encoder": EncoderConfig(units=4, bidirectional=False)},
    "layers": {"encoder": EncoderConfig(units=4, layers=2), "layer_norm": "encoder"},
    "residual": {"encoder": EncoderConfig(units=4, layers=3), "residual": True, "cell": "lstm"},
    "residual, one direction": {
        "encoder": EncoderConfig(units=4, layers=2, bidirectional=False),
        "residual": True,
        "gru_reset": "after",
        "layer_norm": "both",
    },
}
FORMS |= {
    f"reversed {name}": {"reverse_source": True, **FORMS[name]}
    for name in ("paper", "residual", "residual, one direction")
}
forms = pytest.mark.parametrize("name", FORMS)


class Case:
    """An encoder with generic parameters."""

    def __init__(self, name: str):
        form: dict[str, Any] = {"encoder": EncoderConfig(units=4)} | FORMS[name]
        self.config = ModelConfig(embedding=3, initial_state="zero", **form)
        rng = np.random.default_rng(0)
        params = random_parameters(parameter_shapes(self.config, 8, 5), rng)
        self.params = jax.tree.map(np.float32, params)
        module = Encoder(self.config)

        def encode(params, source):
            embedded = params["source_embedding"][source.T]
            annotations, final, _ = apply(module, params["encoder"], embedded, (source > 0).T)
            return annotations.swapaxes(0, 1), final

        self.traced = encode
        self.compiled = quick_jit(encode)

    def __call__(self, source=SOURCE, params=None):
        """Returns annotations [B, S, C] and last states [B, C]."""
        return map(np.asarray, self.compiled(params or self.params, source))


case = functools.cache(Case)


@forms
def test_annotations_and_last_states_equal_the_oracle(name: str) -> None:
    annotations, final = case(name)()
    config = case(name).config
    expected = reference.encode(case(name).params, config, SOURCE, MASK)
    assert annotations.shape[-1] == config.annotation_units
    np.testing.assert_allclose(annotations, expected, rtol=1e-5, atol=1e-6)
    for row, mask in enumerate(MASK):
        last = reference.final_state(config, expected[row, : mask.sum()])
        np.testing.assert_allclose(final[row], last, rtol=1e-5, atol=1e-6)


@forms
def test_annotations_are_zero_at_padding_and_nowhere_else(name: str) -> None:
    annotations, final = case(name)()
    assert not annotations[~MASK].any() and annotations[MASK].all()
    assert not final[3].any()


@forms
def test_what_stands_at_padding_changes_nothing(name: str) -> None:
    annotations, final = case(name)()
    other = dict(case(name).params)
    other["source_embedding"] = other["source_embedding"].copy()
    other["source_embedding"][0] = 1e3
    again, last = case(name)(params=other)
    np.testing.assert_array_equal(again, annotations)
    np.testing.assert_array_equal(last, final)


def test_more_padding_changes_nothing() -> None:
    for name in ("paper", "residual"):
        annotations, final = case(name)()
        wider, last = case(name)(np.pad(SOURCE, ((0, 0), (0, 3))))
        np.testing.assert_allclose(wider[:, : SOURCE.shape[1]], annotations, rtol=1e-6)
        np.testing.assert_allclose(last, final, rtol=1e-6)
        assert not wider[:, SOURCE.shape[1] :].any()


def test_no_gradient_reaches_padding_and_every_parameter_receives_one() -> None:
    made = case("residual")
    rng = np.random.default_rng(1)
    into = rng.normal(size=(*SOURCE.shape, 8)).astype(np.float32)

    def f(params):
        annotations, final = made.traced(params, SOURCE)
        return jnp.sum(annotations * into) + jnp.sum(final * into[:, 0])

    gradient = jax.tree.map(np.asarray, quick_jit(jax.grad(f))(made.params))
    assert not np.any(gradient["source_embedding"][0])  # PAD
    assert np.all(np.any(gradient["source_embedding"][[2, 4, 5, 6, 7]], axis=-1))
    for path, leaf in jax.tree_util.tree_leaves_with_path(gradient["encoder"]):
        assert np.all(np.isfinite(leaf)) and np.any(leaf), path


@pytest.mark.parametrize("name", ["paper", "after", "lstm"])
def test_a_reversed_sentence_swaps_the_directions(name: str) -> None:
    # The backward recurrence starts at the last real token: it is the forward one of the reverse.
    annotations, _ = case(name)()
    reverse = SOURCE.copy()
    for row, mask in enumerate(MASK):
        reverse[row, : mask.sum()] = SOURCE[row, : mask.sum()][::-1]
    encoder = case(name).params["encoder"]
    swapped = {"forward_0": encoder["backward_0"], "backward_0": encoder["forward_0"]}
    mirrored, _ = case(name)(reverse, case(name).params | {"encoder": swapped})
    for row, mask in enumerate(MASK):
        n = mask.sum()
        expected = np.roll(annotations[row, :n][::-1], 4, axis=-1)  # 4 units a direction
        np.testing.assert_allclose(mirrored[row, :n], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["paper", "residual, one direction"])
def test_reversed_reading_is_reading_a_reversed_sentence(name: str) -> None:
    reverse, turned = SOURCE.copy(), np.zeros_like(SOURCE)
    for row, mask in enumerate(MASK):
        words = max(mask.sum() - 1, 0)
        reverse[row, :words] = SOURCE[row, :words][::-1]
        turned[row] = [*reversed(range(words)), *range(words, SOURCE.shape[1])]
    np.testing.assert_array_equal(reading_order(jnp.asarray(MASK.T)).T, turned)
    annotations, final = case(f"reversed {name}")()
    expected, last = case(name)(reverse)
    np.testing.assert_array_equal(final, last)
    for row in range(len(SOURCE)):
        np.testing.assert_array_equal(annotations[row], expected[row, turned[row]])
    plain, _ = case(name)()
    assert np.all(np.abs(annotations - plain)[0, :5].max(-1) > 1e-4)


def test_reversed_reading_sees_no_word_before_it() -> None:
    name = "reversed residual, one direction"
    annotations, _ = case(name)()
    changed = SOURCE.copy()
    changed[0, 1] = 3
    other, _ = case(name)(changed)
    np.testing.assert_array_equal(other[0, 2:4], annotations[0, 2:4])
    assert np.all(np.abs(other - annotations)[0, [0, 1, 4]].max(-1) > 1e-4)


def test_one_direction_sees_no_word_behind_it() -> None:
    annotations, _ = case("residual, one direction")()
    changed = SOURCE.copy()
    changed[0, 2] = 3
    other, _ = case("residual, one direction")(changed)
    np.testing.assert_array_equal(other[0, :2], annotations[0, :2])
    assert np.all(np.abs(other - annotations)[0, 2:5].max(-1) > 1e-4)
    np.testing.assert_array_equal(other[1:], annotations[1:])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_padded_step_hands_its_state_on_unchanged(reverse: bool) -> None:
    config = ModelConfig(cell="lstm")
    cell = make_cell(config, "encoder", 4, 3)
    inputs = np.random.default_rng(0).normal(size=(6, 4, 3)).astype(np.float32)
    params = cell.init(jax.random.key(0), inputs, method="project")

    def run(inputs, mask):
        return cell.apply(
            params, inputs, mask, method=lambda c, x, m: recur(c, x, m, reverse=reverse)
        )

    # [S, B, H] and [B, H]
    hidden, (last, _) = jax.tree.map(np.asarray, quick_jit(run)(inputs, MASK.T))
    order = range(5, -1, -1) if reverse else range(6)
    before = np.zeros((4, 4), np.float32)
    for j in order:
        stays = ~MASK[:, j]
        np.testing.assert_array_equal(hidden[j][stays], before[stays])
        assert not np.any(np.all(hidden[j][~stays] == before[~stays], axis=-1))
        before = hidden[j]
    np.testing.assert_array_equal(last, before)


@pytest.mark.parametrize("kernels", ["auto", "reference"])
@pytest.mark.parametrize("name", [name for name in FORMS if "residual" not in name] + ["deep"])
def test_the_forward_directions_last_states_equal_the_oracle(name: str, kernels: str) -> None:
    deep: dict[str, Any] = {
        "encoder": EncoderConfig(units=4, layers=3),
        "residual": True,
        "cell": "lstm",
    }
    form: dict[str, Any] = {"encoder": EncoderConfig(units=4)}
    form |= deep if name == "deep" else FORMS[name]
    config = ModelConfig(embedding=3, initial_state="layers", kernels=kernels, **form)
    params = random_parameters(parameter_shapes(config, 8, 5), np.random.default_rng(0))
    embedded = params["source_embedding"][SOURCE.T].astype(np.float32)
    single = jax.tree.map(np.float32, params["encoder"])
    _, _, layers = quick_jit(
        lambda params, x: apply(Encoder(config), params, x, jnp.asarray(MASK.T))
    )(single, embedded)
    expected = reference.last_states(params, config, SOURCE, MASK)
    assert len(layers) == config.encoder.layers
    for ours, theirs in zip(layers, expected, strict=True):
        assert len(ours) == (2 if config.cell == "lstm" else 1)
        for mine, other in zip(ours, theirs, strict=False):  # a GRU has no memory
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
            assert np.all(np.any(mine[:3], axis=-1)) and not np.any(mine[3])
