"""Peak memory of a training step by sentence length: additive, projected and dot, and PyTorch's.

    python benchmarks/memory.py

Each figure is one process's. `planned` is XLA's own plan for the compiled step (`memory_analysis`:
parameters, Adam's moments, batch, and everything between); `process` is the most that the process
held during a step, less what it held before the model was made. Sizes: 128 sentences, S = T,
embeddings of 256, encoder 256 a direction, decoder 512, A = 512, 8,000 words, float32.
`--smallest` takes one length of the additive score with layers of 8 units, to see that all runs.

Hardware and figures: docs/speed.md.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import measuring
import numpy as np
from rivals.contenders import InPyTorch, Ours

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch
from experiments import multi30k

SCORES = ("additive", "projected", "dot")
ROWS, WORDS = 128, 8000


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a training step.")
    parser.add_argument("--lengths", default="25,50,100,200", help="values of S = T")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--smallest", action="store_true", help="tiny sizes, to see that all runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # SIDE,SCORE,LENGTH in this process
    arguments = parser.parse_args()
    if arguments.one:
        side, score, length = arguments.one.split(",")
        print(json.dumps(measure(side, score, int(length), arguments.smallest)))
        return
    scores, lengths = SCORES, [int(text) for text in arguments.lengths.split(",")]
    if arguments.smallest:
        scores, lengths = SCORES[:1], lengths[:1]
    rows = []
    print("S = T", *(f"{s} planned\t{s} process\t{s} PyTorch" for s in scores), sep="\t")
    for length in lengths:
        row: dict = {"length": length}
        for score in scores:
            for side in ("ours", "pytorch"):
                command = [sys.executable, __file__, f"--one={side},{score},{length}"]
                command += ["--smallest"] * arguments.smallest
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                row |= json.loads(done.stdout)
        rows.append(row)
        keys = [f"{s} {kind}" for s in scores for kind in ("planned", "process", "PyTorch")]
        print(length, *(f"{row[key] / measuring.MIB:.0f}" for key in keys), sep="\t")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(side: str, score: str, length: int, smallest: bool) -> dict[str, int]:
    """Returns the bytes of one side at one length, by what they are called in the table."""
    from rivals import torch_seq2seq  # noqa: F401  (PyTorch's own memory isn't the step's)

    config = configuration(score)
    if smallest:
        measuring.shrink(config)
    ids = np.random.default_rng(0).integers(4, WORDS, (2, ROWS, length)).astype(np.int32)
    batch = Batch(ids[0], ids[1])
    before = measuring.resident()
    if side == "pytorch":
        theirs = InPyTorch(config, WORDS, WORDS, os.cpu_count() or 1)
        theirs.step(batch)
        peak = measuring.peak_during(lambda: theirs.step(batch))
        return {f"{score} PyTorch": peak - before}
    ours = Ours(config, WORDS, WORDS)
    ours.prepare(batch)
    ours.step(batch)
    peak = measuring.peak_during(lambda: ours.step(batch))
    return {
        f"{score} planned": ours.planned_memory(batch),
        f"{score} process": peak - before,
    }


def configuration(score: str) -> Config:
    config = multi30k.get_config()
    config.model.gru_reset = "after"
    config.model.attention.score = score
    dropout = config.train.dropout
    dropout.embedding = dropout.annotations = dropout.readout = 0.0
    config.train.label_smoothing = 0.0
    return config


if __name__ == "__main__":
    main()
