"""The oracle and the seed's model in PyTorch are the same function, with the same gradients."""

import numpy as np
import pytest
import reference
from reference_parameters import cell_shapes, parameter_shapes, random_parameters

from bahdanau_jax.config import EncoderConfig, ModelConfig

torch = pytest.importorskip("torch", reason="PyTorch isn't installed: parity can't be checked")
import torch_reference  # noqa: E402  (it needs torch)

SOURCE = np.array([[4, 5, 6, 2], [5, 2, 0, 0], [3, 3, 2, 0]])
TARGET = np.array([[6, 4, 2], [2, 0, 0], [7, 2, 0]])


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def double(array: np.ndarray):
    return torch.from_numpy(np.asarray(array, dtype=np.float64))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_step_equals_pytorchs_cell(cell: str) -> None:
    rng = generator()
    params = random_parameters(cell_shapes(ModelConfig(cell=cell, gru_reset="after"), 3, 4, 2), rng)
    x, context, s, memory = (rng.normal(size=size) for size in (3, 2, 4, 4))
    kind = torch.nn.GRUCell if cell == "gru" else torch.nn.LSTMCell
    theirs = kind(5, 4).double()
    torch_reference.load_cell(tuple(theirs.parameters()), params)
    joined = double(np.concatenate([x, context]))
    with torch.no_grad():
        if cell == "gru":
            expected = [theirs(joined, double(s))]
            ours = [reference.gru_after_step(params, x, s, context)]
        else:
            expected = theirs(joined, (double(s), double(memory)))
            ours = reference.lstm_step(params, x, s, memory, context)
    for mine, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=1e-12)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_two_layers_of_the_encoder_equal_pytorchs_packed_recurrence(cell: str) -> None:
    encoder = EncoderConfig(units=4, layers=2)
    config = ModelConfig(cell=cell, gru_reset="after", embedding=3, encoder=encoder)
    params = random_parameters(parameter_shapes(config, 7, 8), generator())
    theirs = torch_reference.Encoder(3, 4, layers=2, cell=cell).double()
    theirs.load(params["encoder"])
    embedded = double(params["source_embedding"][SOURCE])
    with torch.no_grad():
        expected = theirs(embedded, torch.from_numpy(SOURCE > 0)).numpy()
    ours = reference.encode(params, config, SOURCE, SOURCE > 0)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-15)


def seed_model():
    config = torch_reference.seed_form(embedding=3, encoder=4, decoder=5, attention=6)
    params = random_parameters(parameter_shapes(config, 7, 8), generator())
    model = torch_reference.Seq2Seq(config, 7, 8).double()
    model.load(params)
    batch = [torch.from_numpy(a) for a in (SOURCE, SOURCE > 0, TARGET, TARGET > 0)]
    return config, params, model, batch


def test_the_seeds_model_equals_the_oracle() -> None:
    config, params, model, (source, source_mask, target, target_mask) = seed_model()
    with torch.no_grad():
        logits, alignments = model(source, source_mask, target)
        loss = model.loss(source, source_mask, target, target_mask)
    real = TARGET > 0
    ours, our_alignments = reference.decode_teacher_forced(
        params, config, SOURCE, SOURCE > 0, TARGET, real
    )
    np.testing.assert_allclose(ours[real], logits.numpy()[real], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(our_alignments[real], alignments.numpy()[real], rtol=1e-11)
    assert reference.nll(ours, TARGET, real) == pytest.approx(float(loss), rel=1e-12)


def test_the_seeds_gradients_equal_finite_differences_of_the_oracle() -> None:
    config, params, model, batch = seed_model()
    model.loss(*batch).backward()
    gradients = model.gradients()

    def loss(p: dict) -> float:
        logits, _ = reference.decode_teacher_forced(
            p, config, SOURCE, SOURCE > 0, TARGET, TARGET > 0
        )
        return reference.nll(logits, TARGET, TARGET > 0)

    differences = reference.finite_difference(loss, params, generator(), count=50)
    for difference in differences:
        exact = difference.of(gradients)
        assert difference.value == pytest.approx(exact, rel=1e-6, abs=1e-8), difference
    assert sum(abs(difference.value) > 1e-3 for difference in differences) > 25


def test_gradients_come_back_under_the_names_and_shapes_of_the_parameters() -> None:
    config, _, model, batch = seed_model()
    model.loss(*batch).backward()

    def shapes(tree):
        return {k: shapes(v) if isinstance(v, dict) else v.shape for k, v in tree.items()}

    assert shapes(model.gradients()) == parameter_shapes(config, 7, 8)


def test_what_cannot_be_loaded_is_refused() -> None:
    _, params, model, _ = seed_model()
    params["readout"]["b_w"] = np.zeros(1)  # would broadcast
    with pytest.raises(ValueError, match="shape"):
        model.load(params)
    with pytest.raises(ValueError, match="backward"):
        model.gradients()
