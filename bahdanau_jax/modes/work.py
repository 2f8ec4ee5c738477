"""Floating-point work of a training step, counted from the shapes of its matrix products.

A product of [m, k] and [k, n] is 2·m·k·n operations. Elementwise work (gates, softmax, tanh) isn't
counted, with one exception that is told apart: the tanh inside the scores that have one.
"""

from typing import NamedTuple

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.scores import score_cost


class Size(NamedTuple):
    """A padded batch, end marks counted, and the output vocabulary."""

    rows: int  # B
    source: int  # S
    target: int  # T
    vocabulary: int  # V


class Work(NamedTuple):
    """Operations of a part of the model for one batch."""

    part: str
    forward: int
    backward: int  # of both gradients, the inputs' and the weights'


def step_work(config: ModelConfig, size: Size) -> list[Work]:
    """Counts the operations of the matrix products of one training step.

    Each product of the forward pass has two of the same size in the backward pass. What is
    recomputed there to save memory isn't counted.

    Args:
      config: the model.
      size: the batch.

    Returns:
      The parts in the order of the computation.
    """
    positions, steps = size.rows * size.source, size.rows * size.target
    forward = {
        "encoder": 2 * positions * _encoder(config),
        "keys": 2 * positions * score_cost(config).keys,
        "initial state": 2 * size.rows * _initial_state(config),
        "attention": 2 * steps * (_query(config) + size.source * _position(config)),
        "decoder": 2 * steps * _decoder(config),
        "readout": 2 * steps * _readout(config),
        "output layer": 2 * steps * config.readout_size * size.vocabulary,
    }
    return [Work(part, count, 2 * count) for part, count in forward.items()]


def tanh_count(config: ModelConfig, size: Size) -> int:
    """Returns how often a forward pass takes the tanh inside the score, B·T·S·A or 0."""
    return size.rows * size.target * size.source * score_cost(config).tanh


# Below: multiplications of one position, of one step, or of one sentence.


def _encoder(config: ModelConfig) -> int:
    encoder, directions = config.encoder, 1 + config.encoder.bidirectional
    gates = _gates(config, encoder.units)
    inputs = config.embedding + (encoder.layers - 1) * config.annotation_units
    return directions * gates * (inputs + encoder.layers * encoder.units)


def _initial_state(config: ModelConfig) -> int:
    if config.initial_state in ("zero", "layers"):
        return 0
    backward = config.initial_state == "backward"
    rows = config.encoder.units if backward else config.annotation_units
    return rows * config.decoder.units * config.decoder.layers


def _query(config: ModelConfig) -> int:
    units = config.decoder.units
    centre = units * (units + 1) if config.attention.window == "local_p" else 0
    return score_cost(config).query + centre


def _position(config: ModelConfig) -> int:
    """The energy of one source position, and its share of the context."""
    context = 0 if config.attention.score == "fixed" else config.annotation_units
    return score_cost(config).energy + context


def _decoder(config: ModelConfig) -> int:
    units, context = config.decoder.units, config.annotation_units
    match config.attention.query:
        case "previous":
            rows = config.embedding + context + units
        case "intermediate":
            rows = config.embedding + units + context + units
        case _:
            rows = config.embedding + units + config.fed_units
    upper = (config.decoder.layers - 1) * 2 * units
    return (rows + upper) * _gates(config, units)


def _readout(config: ModelConfig) -> int:
    units, context = config.decoder.units, config.annotation_units
    match config.readout:
        case "maxout":
            return (units + config.embedding + context) * 2 * config.readout_units
        case "tanh":
            read = (
                units + config.embedding * config.reads("word") + context * config.reads("context")
            )
            return read * config.readout_units
        case "attentional":
            return (context + units) * config.readout_units
        case _:
            return 0


def _gates(config: ModelConfig, units: int) -> int:
    return (4 if config.cell == "lstm" else 3) * units
