"""Which fields change nothing, given the others.

An experiment file may leave them at any value, but whoever gives one by a flag means something.
"""

from collections.abc import Iterable

from bahdanau_jax.allowed import SCORES
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import text_of, value_of


def ineffective(config: Config) -> dict[str, str]:
    """Returns the fields that change nothing, given the others.

    Args:
      config: validated.

    Returns:
      By the field's path, why, and what would give it an effect.
    """
    data, model, train, decode = config.data, config.model, config.train, config.decode
    attention = model.attention
    score, kind = f"model.attention.score={attention.score}", data.source.partition(":")[0]
    joint = "data.vocabulary.joint makes one vocabulary of both sides"

    def evaluated(times: int) -> bool:
        """Whether steps follow so many evaluations; the epochs' length isn't known."""
        return train.epochs > 0 or times * train.eval_every < train.steps

    once = (
        f"with train.eval_every={train.eval_every} and train.steps={train.steps} there is one "
        "evaluation, after the last step; lower train.eval_every"
    )
    adam = f"train.optimizer={train.optimizer} has no such mean; use adam"
    halving = f"train.schedule={train.schedule} isn't counted from there; use halving"
    rules = {
        "data.source_language": (kind != "tsv", "tsv files have no languages, but columns"),
        "data.target_language": (kind != "tsv", "tsv files have no languages, but columns"),
        "data.directory": (kind == "tfds", "it says where TFDS keeps data; data.source has a path"),
        "data.links_base": (
            bool(data.train_links),
            "there are no links to number; give data.train_links and train.guide",
        ),
        "data.vocabulary.joint": (
            kind == "tsv"
            or data.source_language != data.target_language
            or model.tie_embeddings == "all",
            "both sides are the same text, and so have the same vocabulary; name two languages",
        ),
        "data.vocabulary.target_kind": (not data.vocabulary.joint, joint),
        "data.vocabulary.target_size": (not data.vocabulary.joint, joint),
        "model.gru_reset": (model.cell == "gru", f"model.cell={model.cell} has no reset gate"),
        "model.forget_bias": (
            model.cell == "lstm",
            f"model.cell={model.cell} has no forget gate; use lstm",
        ),
        "model.attention.half_width": (
            attention.window != "global",
            "model.attention.window=global has no bounds; use local_m or local_p",
        ),
        "model.attention.renormalize": (
            attention.window == "local_p",
            f"model.attention.window={attention.window} has no Gaussian; use local_p",
        ),
        "model.feeding": (
            attention.query == "current",
            f"with model.attention.query={attention.query} the state reads c_i itself; use current",
        ),
        "model.readout_parts": (
            model.readout == "tanh",
            f"model.readout={model.readout} has its own parts; use tanh",
        ),
        "model.readout_units": (
            model.readout != "linear",
            "model.readout=linear reads the state as it is; use maxout, tanh or attentional",
        ),
        "model.residual": (
            max(model.encoder.layers, model.decoder.layers) > 1,
            "there is one layer; raise model.encoder.layers or model.decoder.layers",
        ),
        "train.steps": (
            train.epochs == 0,
            f"the run ends after train.epochs={train.epochs}; add --config.train.epochs=0",
        ),
        "train.batch_size": (
            train.batch_tokens == 0,
            f"train.batch_tokens={train.batch_tokens} decides; add --config.train.batch_tokens=0",
        ),
        "train.beta1": (train.optimizer == "adam", adam),
        "train.beta2": (train.optimizer == "adam", adam),
        "train.epsilon": (train.optimizer != "sgd", "train.optimizer=sgd divides by no root"),
        "train.decay_factor": (
            train.schedule == "halving" or (train.schedule == "plateau" and evaluated(2)),
            f"train.schedule={train.schedule} lowers no rate here; use halving, or plateau and "
            "several evaluations",
        ),
        "train.decay_start": (train.schedule == "halving", halving),
        "train.decay_every": (train.schedule == "halving", halving),
        "train.decay_patience": (
            train.schedule == "plateau" and evaluated(2),
            f"train.schedule={train.schedule} waits for no evaluation here; use plateau and a "
            "smaller train.eval_every",
        ),
        "train.dropout.layers": (
            max(model.encoder.layers, model.decoder.layers) > 1,
            "there is one layer; raise model.encoder.layers or model.decoder.layers",
        ),
        "train.dropout.annotations": (
            attention.score != "fixed" or model.initial_state == "mean",
            f"{score} hands on the encoder's last states, and nothing reads the annotations; use "
            "another score",
        ),
        "train.keep_best": (evaluated(1), once),
        "train.patience": (evaluated(1), once),
        "evaluation.tokenize": (
            config.evaluation.metrics == "bleu",
            "evaluation.metrics=error_rate splits at spaces; BLEU alone is tokenised",
        ),
        "decode.beam_size": (
            decode.temperature == 0,
            f"decode.temperature={decode.temperature} samples, without a beam; set it to 0",
        ),
        "decode.length_penalty_alpha": (
            decode.length_penalty == "gnmt",
            f"decode.length_penalty={decode.length_penalty} has no alpha; use gnmt",
        ),
        "decode.seed": (
            decode.temperature > 0,
            "decode.temperature=0 searches and draws nothing; raise it to sample",
        ),
    }
    rules |= {
        f"model.attention.{option}": (
            option in SCORES[attention.score].options,
            f"{score} doesn't read it; {', '.join(readers)} do",
        )
        for option, readers in _readers().items()
    }
    return {path: why for path, (effective, why) in rules.items() if not effective}


def _readers() -> dict[str, list[str]]:
    """Returns the scores that read an option of `model.attention`, by the option's name."""
    options = dict.fromkeys(option for score in SCORES.values() for option in score.options)
    return {o: [name for name, score in SCORES.items() if o in score.options] for o in options}


def refuse_ineffective(config: Config, given: Iterable[str]) -> None:
    """Raises InputError if one of the fields that somebody gave changes nothing.

    Args:
      config: validated.
      given: paths of fields.
    """
    reasons = ineffective(config)
    for path in given:
        if path in reasons:
            value = text_of(value_of(config, path))
            raise InputError(f"{path}={value} has no effect: {reasons[path]}")
