"""Time of a training step by score: additive and projected beside dot, at equal sizes.

    python benchmarks/score_time.py

The sizes are those of memory.py, with 64 sentences. The scores take turns on the same batch of
random sentences, S = T; `--repeats` turns, after one that compiles and isn't counted.

Hardware and figures: the section on speed in README.md.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
from memory import SCORES, WORDS, configuration
from rivals.contenders import Ours

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.runtime.setup import keep_freed_memory

ROWS = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of a training step by score.")
    parser.add_argument("--lengths", default="16,50", help="values of S = T")
    parser.add_argument("--repeats", type=int, default=11, help="steps of each score")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    keep_freed_memory()  # as launch.py does
    models = {score: Ours(configuration(score), WORDS, WORDS) for score in SCORES}
    rows = []
    print("S = T", *(f"{score} ms\tslowest-fastest\tto dot" for score in SCORES), sep="\t")
    for length in map(int, arguments.lengths.split(",")):
        ids = np.random.default_rng(0).integers(4, WORDS, (2, ROWS, length)).astype(np.int32)
        batch = Batch(ids[0], ids[1])
        seconds: dict[str, list[float]] = {score: [] for score in SCORES}
        for model in models.values():
            model.prepare(batch)
            model.step(batch)
        for _ in range(arguments.repeats):
            for score, model in models.items():
                began = time.perf_counter()
                model.step(batch)
                seconds[score].append(time.perf_counter() - began)
        rows.append({"length": length, "seconds": seconds})
        dot = statistics.median(seconds["dot"])
        print(
            length,
            *(
                f"{1e3 * statistics.median(s):.0f}\t{1e3 * max(s):.0f}-{1e3 * min(s):.0f}"
                f"\t{statistics.median(s) / dot:.2f}"
                for s in seconds.values()
            ),
            sep="\t",
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
