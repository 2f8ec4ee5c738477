"""What alignments look like, without knowing what is right: how sharp, and on what."""

from collections.abc import Iterable

import numpy as np


def diagnostics(alignments: Iterable[np.ndarray]) -> dict[str, float]:
    """Computes figures over the alignments of outputs.

    Args:
      alignments: float[T, S] of each sentence, rows are decoding steps; the last column is the end
        mark of the source, the others its tokens. Rows without any weight don't count.

    Returns:
      `entropy`, -Σ_j α_ij log α_ij in nats, and `end_weight`, the weight on the source's end mark
      in percent, both means over all steps; `unattended`, the share in percent of source tokens
      that no step gives its largest weight. nan where there is nothing to count.
    """
    entropy = end_weight = 0.0
    steps = tokens = attended = 0
    for alignment in alignments:
        rows = alignment[alignment.sum(axis=1) > 0].astype(np.float64)
        logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
        entropy -= (rows * logs).sum()
        end_weight += rows[:, -1].sum()
        steps += len(rows)
        end = alignment.shape[1] - 1
        tokens += end
        attended += len(set(rows.argmax(axis=1).tolist()) - {end})
    return {
        "entropy": entropy / steps if steps else float("nan"),
        "end_weight": 100.0 * end_weight / steps if steps else float("nan"),
        "unattended": 100.0 * (tokens - attended) / tokens if tokens else float("nan"),
    }
