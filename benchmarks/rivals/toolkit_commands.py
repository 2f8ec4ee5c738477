"""JoeyNMT and OpenNMT-py, trained by their own commands on text that is cut into pieces already.

Both get the files that `write_text` makes, a configuration of the sizes of `config`, and batches of
so many sentences, which they choose themselves. What is timed is this process's clock between two
lines of their logs, so that their start isn't in it; the real target tokens, end marks counted,
are compared with their own count.

Both feed the attentional vector to the next state and let the new state ask for its context, as
Luong et al. (2015) do, with the additive score of as many units as the decoder has; the output
layer reads that vector, of the decoder's size.
"""

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.data.pipeline import Data
from bahdanau_jax.data.vocabularies import Vocabulary
from bahdanau_jax.special_ids import UNK

Pieces = tuple[list[str], list[str]]  # of the source and of the target, end marks left out


class Pass(NamedTuple):
    """What was timed."""

    seconds: float
    updates: int
    tokens: int  # of the targets, end marks counted, padding not


class Line(NamedTuple):
    """A line of a log, and when it came."""

    time: float
    text: str


def training_pairs(data: Data, max_length: int) -> list[Pieces]:
    """Returns the training pairs of at most so many pieces a side, shuffled."""
    source, target = data.vocabularies.source, data.vocabularies.target
    pairs = [
        (source.tokens(source.encode(s)), target.tokens(target.encode(t)))
        for s, t in data.corpus.pairs()
    ]
    pairs = [pair for pair in pairs if max(map(len, pair)) <= max_length]
    random.Random(0).shuffle(pairs)
    return pairs


def write_text(directory: Path, name: str, pairs: Sequence[Pieces]) -> None:
    """Writes `name.source` and `name.target`, a sentence a line, spaces between its pieces."""
    for side, suffix in enumerate(("source", "target")):
        lines = (" ".join(pair[side]) + "\n" for pair in pairs)
        (directory / f"{name}.{suffix}").write_text("".join(lines), encoding="utf-8")


def write_vocabulary(directory: Path, vocabulary: Vocabulary) -> None:
    """Writes `vocabulary`, a piece a line; both add four special entries of their own."""
    pieces = vocabulary.tokens(range(UNK + 1, vocabulary.size))
    text = "".join(f"{piece}\n" for piece in pieces)
    (directory / "vocabulary").write_text(text, encoding="utf-8")


def target_tokens(pairs: Sequence[Pieces]) -> int:
    """Counts the pieces of the targets, and an end mark each."""
    return sum(len(target) + 1 for _, target in pairs)


def joeynmt_settings(directory: Path, config: Config) -> dict:
    """Returns JoeyNMT's configuration: one epoch of `train`, and a model in `model`.

    Args:
      directory: as in `joeynmt`.
      config: as in `joeynmt`.
    """
    model, train = config.model, config.train

    def side(language: str) -> dict:
        vocabulary = str(directory / "vocabulary")
        return {"lang": language, "level": "word", "voc_file": vocabulary}

    return {
        "name": "benchmark",
        "model_dir": str(directory / "model"),
        "use_cuda": False,
        "data": {
            "train": str(directory / "train"),
            "dev": str(directory / "dev"),
            "dataset_type": "plain",
            "src": side("source"),
            "trg": side("target"),
        },
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adam",
            "learning_rate": train.learning_rate,
            "clip_grad_norm": train.clip_norm,
            "scheduling": "exponential",  # it wants one: this one, a rate that stays as it is
            "decrease_factor": 1.0,
            "batch_size": train.batch_size,
            "epochs": 1,
            "validation_freq": 1_000_000,
            "overwrite": True,
        },
        "model": {
            "encoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": {"embedding_dim": model.embedding},
                "hidden_size": model.encoder.units,
                "bidirectional": True,
                "num_layers": 1,
                "dropout": 0.0,
            },
            "decoder": {
                "type": "recurrent",
                "rnn_type": "gru",
                "embeddings": {"embedding_dim": model.embedding},
                "hidden_size": model.decoder.units,
                "num_layers": 1,
                "attention": "bahdanau",
                "input_feeding": True,
                "init_hidden": "bridge",
                "dropout": 0.0,
                "hidden_dropout": 0.0,
            },
        },
    }


def joeynmt(
    python: str, directory: Path, config: Config, pairs: Sequence[Pieces], threads: int
) -> Pass:
    """Trains one epoch of JoeyNMT.

    Args:
      python: the interpreter that has it.
      directory: where `train.source`, `train.target` and `vocabulary` lie.
      config: sizes, rows of a batch and rate.
      pairs: what `train` holds.
      threads: of the computation.

    Returns:
      The whole epoch, from the line that begins it to the one that ends it.

    Raises:
      SystemExit: the command fails, or it counts other tokens.
    """
    settings = joeynmt_settings(directory, config)
    path = write_settings(directory / "joeynmt.yaml", settings)
    lines = run([python, "-m", "joeynmt", "train", path, "--skip-test"], threads)
    began = next(line.time for line in lines if "EPOCH 1" in line.text)
    pattern = re.compile(r"Epoch +1, total .*num\. of seqs: (\d+), num\. of tokens: (\d+)")
    ended, sentences, tokens = next(
        (line.time, *map(int, found.groups()))
        for line in lines
        if (found := pattern.search(line.text))
    )
    if (sentences, tokens) != (len(pairs), target_tokens(pairs)):
        raise SystemExit(
            f"JoeyNMT counts {sentences} sentences and {tokens} target tokens, but the text has "
            f"{len(pairs)} and {target_tokens(pairs)}"
        )
    return Pass(ended - began, -(-len(pairs) // config.train.batch_size), tokens)


def opennmt(
    python: str,
    directory: Path,
    config: Config,
    pairs: Sequence[Pieces],
    threads: int,
    *,
    updates: int,
    input_feed: bool,
) -> Pass:
    """Trains OpenNMT-py.

    Args:
      python: the interpreter that has it.
      directory: as in `joeynmt`.
      config: as in `joeynmt`.
      pairs: what `train` holds. It sorts all of them by length for its batches.
      threads: of the computation.
      updates: in all; the first isn't timed.
      input_feed: its default. Without, its states don't see what attention finds: another model,
        whose recurrence runs apart from its attention.

    Returns:
      From the line of the first update to that of the last.

    Raises:
      SystemExit: the command fails, or it counts more tokens than there are.
    """
    model, train = config.model, config.train
    settings = {
        "save_data": str(directory / "opennmt"),
        "save_model": str(directory / "opennmt" / "model"),
        "src_vocab": str(directory / "vocabulary"),
        "tgt_vocab": str(directory / "vocabulary"),
        "data": {
            "corpus": {
                "path_src": str(directory / "train.source"),
                "path_tgt": str(directory / "train.target"),
            }
        },
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "enc_layers": 1,
        "dec_layers": 1,
        "word_vec_size": model.embedding,
        "hidden_size": model.decoder.units,  # of both directions together, too
        "global_attention": "mlp",
        "input_feed": int(input_feed),
        "dropout": [0.0],
        "optim": "adam",
        "learning_rate": train.learning_rate,
        "max_grad_norm": train.clip_norm,
        "batch_type": "sents",
        "batch_size": train.batch_size,
        "bucket_size": len(pairs),
        "num_workers": 0,  # no process of its own for batches: it would need a third core
        "train_steps": updates,
        "valid_steps": 1_000_000,
        "save_checkpoint_steps": 1_000_000,
        "report_every": 1,
        "seed": 1,
    }
    if 2 * model.encoder.units != model.decoder.units:
        raise SystemExit(
            "OpenNMT-py's encoder has as many units, in two directions, as its decoder"
        )
    path = write_settings(directory / "opennmt.yaml", settings)
    lines = run([python, "-m", "onmt.bin.train", "-config", path], threads)
    pattern = re.compile(r"Step +\d+/.*bsz: *\d+/ *(\d+)/")
    steps = [(line.time, int(found[1])) for line in lines if (found := pattern.search(line.text))]
    counted = sum(tokens for _, tokens in steps)
    if len(steps) != updates or counted > target_tokens(pairs):
        raise SystemExit(
            f"OpenNMT-py reports {len(steps)} updates of {updates} and {counted} target tokens; "
            f"the text has {target_tokens(pairs)}"
        )
    return Pass(steps[-1][0] - steps[0][0], updates - 1, counted - steps[0][1])


def has(python: str, module: str) -> bool:
    """Returns whether an interpreter can import a module."""
    command = [python, "-c", f"import {module}"]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def write_settings(path: Path, settings: dict) -> str:
    """Writes a configuration; returns the path, for a command."""
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")  # JSON is YAML
    return str(path)


def run(command: list[str], threads: int) -> list[Line]:
    """Runs a command to its end; returns what it printed."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    # What is set for this project's interpreter isn't for another.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=kept | limits | {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1"},
    )
    lines = list(_timed_lines(process))
    if process.wait():
        ending = "\n".join(line.text for line in lines[-20:])
        raise SystemExit(f"{' '.join(command)} failed:\n{ending}")
    return lines


def _timed_lines(process: subprocess.Popen[str]) -> Iterator[Line]:
    assert process.stdout
    for text in process.stdout:
        yield Line(time.perf_counter(), text.rstrip())
