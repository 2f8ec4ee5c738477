"""The mode `score`: how likely a model holds given targets to be."""

import math
from collections.abc import Iterable
from typing import TextIO

from bahdanau_jax.evaluation.given_pairs import chunks
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.terminal import say


def score(run: TrainedRun, texts: Iterable[tuple[str, str]], out: TextIO) -> None:
    """Writes a line for each pair, in their order: log-probability, tab, number of tokens.

    The log-probability is log p(target | source) in nats; the end mark is one of the tokens. A
    last line, on standard error, says the totals and the perplexity per token.

    Args:
      run: the trained model.
      texts: source and target of each pair.
      out: where the lines go.

    Raises:
      InputError: what gives the pairs finds a fault in them; lines before it have been written.
    """
    pairs = tokens = 0
    nll = 0.0
    for given in chunks(run, texts):
        likelihood = run.evaluator.likelihood(run.params, given.store)
        rows = zip(likelihood.nll, likelihood.tokens, strict=True)
        out.writelines(f"{-value:.6f}\t{count}\n" for value, count in rows)
        out.flush()
        pairs += len(given.ids)
        tokens += int(likelihood.tokens.sum())
        nll += float(likelihood.nll.sum())
    if not pairs:
        say("there were no pairs to score")
        return
    perplexity = math.exp(min(nll / tokens, 700.0))  # each target has its end mark
    say(
        f"{pairs:,} pairs, {tokens:,} tokens: log-probability {-nll:.4f}, "
        f"perplexity per token {perplexity:.4f}"
    )
