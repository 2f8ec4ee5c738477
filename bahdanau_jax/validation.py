"""What a configuration must satisfy before anything is computed, in the user's words."""

import dataclasses
import functools
import math
from typing import Any, get_type_hints

from bahdanau_jax.allowed import CHOICES, CONTROLS, METRICS, MOST, RANGES, SCORES
from bahdanau_jax.config import Config, DecodeConfig, ModelConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import unknown_field, value_of


def validate(config: Config) -> None:
    """Checks every field, and what fields say together.

    Raises:
      InputError: the first thing that can't work, why, and what to do.
    """
    _check_types(config, "")
    for path, allowed in CHOICES.items():
        value = value_of(config, path)
        if value not in allowed:
            names = ", ".join(name or "''" for name in allowed)
            raise InputError(f"{path} must be one of {names}; it is {value!r}")
    for path, (least, limit) in RANGES.items():
        value: Any = value_of(config, path)
        most = MOST if limit is None else limit
        if not least <= value < most:  # NaN neither
            allowed = f"at least {least}"
            if limit is not None or most <= value < math.inf:
                allowed += f" and below {most}"
            raise InputError(f"{path} must be {allowed}; it is {value}")
    _check_model(config.model)
    _check_vocabulary(config)
    _check_training(config)
    _check_decoding(config.decode)


def _check_decoding(decode: DecodeConfig) -> None:
    """Checks what the fields of `decode` say together."""
    _refuse(
        decode.min_length_ratio > decode.max_length_ratio,
        f"decode.min_length_ratio={decode.min_length_ratio} is above "
        f"decode.max_length_ratio={decode.max_length_ratio}; lower it",
    )


_types_of = functools.cache(get_type_hints)


def _check_types(section: Any, prefix: str) -> None:
    """Checks what an experiment file assigned: dataclasses take any name and any type."""
    types = _types_of(type(section))
    for name in vars(section):
        if name not in types:
            raise InputError(unknown_field(prefix + name))
    for name, kind in types.items():
        value = getattr(section, name)
        whole = kind is float and type(value) is int
        if type(value) is not kind and not whole:
            raise InputError(f"{prefix}{name} must be {kind.__name__}; it is {value!r}")
        if dataclasses.is_dataclass(kind):
            _check_types(value, f"{prefix}{name}.")


def _check_model(model: ModelConfig) -> None:
    attention = model.attention
    width = model.annotation_units
    _refuse(
        attention.score == "dot" and width != model.decoder.units,
        f"model.attention.score=dot needs queries and annotations of one size, but "
        f"model.decoder.units is {model.decoder.units} and the annotations have {width}; set "
        f"model.decoder.units={width}, or use general or projected, which join unequal sizes",
    )
    options = SCORES[attention.score].options
    _refuse(
        attention.scale != "none" and "scale" not in options,
        f"model.attention.scale={attention.scale} applies to products; with "
        f"model.attention.score={attention.score} set it to none",
    )
    for option in ("bias", "normalize", "normalize_keys"):
        _refuse(
            getattr(attention, option) and option not in options,
            f"model.attention.{option} belongs to the scores "
            + " and ".join(name for name, score in SCORES.items() if option in score.options)
            + f", not to {attention.score}; set it to false",
        )
    whole = attention.score in ("dot", "general")  # query and annotation as they are
    _refuse(
        attention.normalize_keys and (width if whole else attention.units) == 1,
        "model.attention.normalize_keys takes from each number the mean of all that the score "
        "compares, and there is only one; raise "
        + ("model.encoder.units" if whole else "model.attention.units"),
    )
    _refuse(
        attention.normalize and model.initialization == "paper",
        "model.attention.normalize divides v_a by its norm, and model.initialization=paper starts "
        "v_a at zero; use another initialization",
    )
    _refuse(
        attention.coverage and "coverage" not in options,
        f"model.attention.coverage enters the additive score's tanh; {attention.score} has no "
        "place for it: set it to false",
    )
    _refuse(
        attention.window != "global" and "window" not in options,
        f"model.attention.score={attention.score} is a control over the whole sentence; set "
        "model.attention.window=global",
    )
    _refuse(
        not attention.renormalize and attention.window != "local_p",
        "model.attention.renormalize=false leaves out a division that only "
        "model.attention.window=local_p has; set it to true",
    )
    _refuse(
        model.feeding != "none" and attention.query != "current",
        f"model.feeding={model.feeding} hands a vector to the next state, which then queries; it "
        f"needs model.attention.query=current. With {attention.query} the state reads c_i itself: "
        "set model.feeding=none",
    )
    _refuse(
        model.feeding == "attentional" and model.readout != "attentional",
        "model.feeding=attentional feeds the attentional vector, which only "
        f"model.readout=attentional computes; it is {model.readout}",
    )
    _refuse(
        model.readout != "tanh" and model.readout_parts != "state_word_context",
        f"model.readout_parts={model.readout_parts} says what model.readout=tanh sums up; with "
        f"{model.readout} leave it at state_word_context",
    )
    without_context = model.readout == "linear" or "context" not in model.readout_parts
    _refuse(
        without_context and attention.query == "current" and model.feeding == "none",
        f"model.readout={model.readout} doesn't read the context here, and with "
        "model.attention.query=current the state never sees it; use attentional or maxout, "
        "model.feeding=context, or with tanh model.readout_parts=state_context",
    )
    _refuse(
        model.initial_state == "backward" and not model.encoder.bidirectional,
        "model.initial_state=backward reads the backward direction, which "
        "model.encoder.bidirectional=false leaves out; use final, mean or zero",
    )
    _refuse(
        model.initial_state == "layers" and model.encoder.layers != model.decoder.layers,
        "model.initial_state=layers starts each decoder layer from the encoder layer of its "
        f"number, but model.encoder.layers is {model.encoder.layers} and model.decoder.layers is "
        f"{model.decoder.layers}; make them equal, or use final",
    )
    _refuse(
        model.initial_state == "layers" and model.encoder.units != model.decoder.units,
        "model.initial_state=layers copies the states of the encoder's forward direction, so both "
        f"sides need one size; model.encoder.units is {model.encoder.units} and "
        f"model.decoder.units is {model.decoder.units}: make them equal, or use final",
    )
    _refuse(
        model.tie_embeddings != "none" and model.readout_size != model.embedding,
        f"model.tie_embeddings={model.tie_embeddings} uses the target embedding "
        f"({model.embedding}) as output layer, so the readout must have that size too; it has "
        f"{model.readout_size}: change model.embedding or {_readout_field(model)}",
    )
    for side, units in (("encoder", model.encoder.units), ("decoder", model.decoder.units)):
        _refuse(
            model.normalises(side) and units == 1,
            f"model.layer_norm={model.layer_norm} takes the mean over a layer's units from each, "
            f"which leaves nothing of one; raise model.{side}.units or leave the {side} out",
        )
    _refuse(
        model.residual and max(model.encoder.layers, model.decoder.layers) == 1,
        "model.residual adds a layer's input to its output from the second layer on; there is "
        "only one: set it to false or raise model.encoder.layers or model.decoder.layers",
    )
    _refuse(
        model.cell == "lstm" and model.gru_reset != "before",
        "model.gru_reset has no meaning with model.cell=lstm; leave it at before",
    )
    _refuse(
        model.cell == "gru" and model.forget_bias != 0,
        f"model.forget_bias={model.forget_bias} is added to a forget gate, which model.cell=gru "
        "hasn't; set it to 0 or use lstm",
    )


def _check_vocabulary(config: Config) -> None:
    vocabulary = config.data.vocabulary
    _refuse(
        not config.data.source,
        "data.source is empty; give tfds:NAME, text:DIR or tsv:DIR, or jsonl, csv or parquet:DIR",
    )
    for kind, size in vocabulary.sides:
        _refuse(
            kind in ("unigram", "bpe") and size == 0,
            f"data.vocabulary.size=0 means all that occur, which {kind} pieces can't say; give "
            "a number of pieces, for instance 8000",
        )
        _refuse(
            0 < size < 5,
            f"a vocabulary of {size} entries has no room beside its 4 special ones; give 0 or "
            "more than 4",
        )
    _refuse(
        config.model.tie_embeddings == "all" and not vocabulary.joint,
        "model.tie_embeddings=all has one embedding for both sides, so they need one vocabulary; "
        "set data.vocabulary.joint=true or model.tie_embeddings=output",
    )
    _refuse(
        vocabulary.joint and vocabulary.of_target != vocabulary.kind,
        "data.vocabulary.joint makes one vocabulary of both sides; leave "
        "data.vocabulary.target_kind empty",
    )
    _refuse(
        vocabulary.joint and vocabulary.target_size not in (0, vocabulary.size),
        "data.vocabulary.joint makes one vocabulary of both sides; leave "
        "data.vocabulary.target_size at 0",
    )


def _check_training(config: Config) -> None:
    train = config.train
    _refuse(train.learning_rate == 0, "train.learning_rate is 0: nothing would be learnt")
    _refuse(
        train.epochs == 0 and train.warmup_steps >= train.steps,
        f"train.warmup_steps={train.warmup_steps} leaves none of train.steps={train.steps} at "
        "the full learning rate; lower it",
    )
    length, unit = (train.epochs, "epochs") if train.epochs else (train.steps, "steps")
    _refuse(
        train.schedule == "halving" and train.decay_start >= length,
        f"train.decay_start={train.decay_start:g} leaves nothing of train.{unit}={length:g} at a "
        "lower rate; lower it",
    )
    for field in ("decay_factor", "decay_every"):
        _refuse(getattr(train, field) == 0, f"train.{field} is 0; raise it")
    _refuse(
        config.data.pool > 0 and train.batch_tokens > 0,
        f"data.pool={config.data.pool} sorts the pairs of so many batches of train.batch_size, and "
        f"train.batch_tokens={train.batch_tokens} leaves open how many pairs a batch has; set one "
        "of them to 0",
    )
    score = config.model.attention.score
    _refuse(
        train.coverage > 0 and score in CONTROLS,
        f"train.coverage={train.coverage} teaches weights, and those of "
        f"model.attention.score={score} are fixed; set it to 0, or use another score",
    )
    _refuse(
        train.guide > 0 and score in CONTROLS,
        f"train.guide={train.guide} teaches weights, and those of model.attention.score={score} "
        "are fixed; set it to 0, or use another score",
    )
    _refuse(
        train.guide > 0 and not config.data.train_links,
        f"train.guide={train.guide} needs links to learn from; give data.train_links=FILE, or set "
        "it to 0",
    )
    _refuse(
        bool(config.data.train_links) and train.guide == 0,
        f"data.train_links={config.data.train_links} is read by nobody with train.guide=0; give "
        "that a weight, for instance 0.1, or leave data.train_links empty",
    )
    characters = config.data.vocabulary.of_target == "characters"
    other = "per" if characters else "cer"  # one error rate by symbol, named after the symbols
    possible = [name for name in METRICS[config.evaluation.metrics] if name != other]
    _refuse(
        train.metric not in ("nll_per_token", *possible),
        f"train.metric={train.metric} isn't computed with "
        f"evaluation.metrics={config.evaluation.metrics} and a target vocabulary of "
        f"{config.data.vocabulary.of_target}; choose nll_per_token or one of "
        + ", ".join(possible),
    )


def _readout_field(model: ModelConfig) -> str:
    return "model.decoder.units" if model.readout == "linear" else "model.readout_units"


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise InputError(message)
