"""Time of a training step by score: with the kernels, without them, and in PyTorch.

    python benchmarks/score_time.py

The sizes are those of memory.py, with 64 sentences. All take turns on the same batch of random
sentences, S = T; `--repeats` turns, after one that compiles and isn't counted. With
`model.kernels=reference` every loop is `nn.scan`'s and the loss the plain one, so that "to
reference" is what the kernels gain in a whole step, and "to dot" compares scores in the same loop.
PyTorch's side is that of train_step.py; where PyTorch is absent, or has no such score there, its
columns are empty.

Hardware and figures: docs/speed.md.
"""

import argparse
import importlib.util
import json
import math
import os
import statistics
import time
from pathlib import Path

import numpy as np
from memory import WORDS, configuration
from rivals.contenders import Contender, InPyTorch, Ours

from bahdanau_jax.allowed import CHOICES, SCORES
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.runtime.setup import keep_freed_memory

ROWS = 64
TIMED = [score for score in SCORES if score != "fixed"]  # which has no step of its own to time
COLUMNS = ("S = T", "score", "auto ms", "slowest-fastest", "reference ms", "PyTorch ms")
RATIOS = ("to reference", "to dot", "to PyTorch")


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of a training step by score.")
    parser.add_argument("--scores", default=",".join(TIMED), help="dot is compared with")
    parser.add_argument("--lengths", default="16,50", help="values of S = T")
    parser.add_argument("--repeats", type=int, default=11, help="steps of each")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    keep_freed_memory()  # as launch.py does
    scores = list(dict.fromkeys([*arguments.scores.split(","), "dot"]))
    models: dict[tuple[str, str], Contender] = {}
    in_pytorch = scores_of_pytorch()
    for score in scores:
        for kernels in CHOICES["model.kernels"]:
            config = configuration(score)
            config.model.kernels = kernels
            models[score, kernels] = Ours(config, WORDS, WORDS)
        if score in in_pytorch:
            threads = os.cpu_count() or 1
            models[score, "pytorch"] = InPyTorch(configuration(score), WORDS, WORDS, threads)
    rows = []
    print(*COLUMNS, *RATIOS, sep="\t")
    for length in map(int, arguments.lengths.split(",")):
        ids = np.random.default_rng(0).integers(4, WORDS, (2, ROWS, length)).astype(np.int32)
        seconds = times(models, Batch(ids[0], ids[1]), arguments.repeats)
        rows.append({"length": length, "seconds": {"/".join(k): s for k, s in seconds.items()}})
        dot = statistics.median(seconds["dot", "auto"])
        for score in scores:
            auto, plain = seconds[score, "auto"], seconds[score, "reference"]
            median, reference = statistics.median(auto), statistics.median(plain)
            theirs = statistics.median(seconds.get((score, "pytorch"), [float("nan")]))
            print(
                length,
                score,
                f"{1e3 * median:.0f}",
                f"{1e3 * max(auto):.0f}-{1e3 * min(auto):.0f}",
                f"{1e3 * reference:.0f}",
                "" if math.isnan(theirs) else f"{1e3 * theirs:.0f}",
                f"{median / reference:.2f}",
                f"{median / dot:.2f}",
                "" if math.isnan(theirs) else f"{median / theirs:.2f}",
                sep="\t",
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


def scores_of_pytorch() -> tuple[str, ...]:
    """Returns the scores that PyTorch's side has; none where PyTorch isn't installed."""
    if importlib.util.find_spec("torch") is None:
        return ()
    from rivals import torch_seq2seq

    return torch_seq2seq.SCORES


def times(
    models: dict[tuple[str, str], Contender], batch: Batch, repeats: int
) -> dict[tuple[str, str], list[float]]:
    """Returns the seconds of every step of each model, which take turns."""
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in models}
    for model in models.values():
        model.prepare(batch)
        model.step(batch)
    for _ in range(repeats):
        for name, model in models.items():
            began = time.perf_counter()
            model.step(batch)
            seconds[name].append(time.perf_counter() - began)
    return seconds


if __name__ == "__main__":
    main()
