"""Beam search and sampling: B sentences with K hypotheses each, in one compiled loop.

The search is the paper's (Bahdanau et al. 2014, section 4.2; Sutskever et al. 2014, section 3.2):
of all one-word continuations of a sentence's live hypotheses the likeliest are kept, and a
hypothesis that reaches the end mark keeps its place among the K. So K = 1 is greedy search.

Axes: M members of an ensemble, K hypotheses, B sentences, S source tokens, L output tokens.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array, lax

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.model import kernels
from bahdanau_jax.model.kernels.top_k import largest
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.search.hypotheses import Rows, Stepper, of_places, row_of_place
from bahdanau_jax.search.penalties import bound, coverage_penalty, length_penalty
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK

# Returns the k largest numbers of the last axis, the largest first, and their places.
TopK: TypeAlias = Callable[[Array, int], Any]


class Sentences(NamedTuple):
    """What is to be translated, and what each sentence asks of its output."""

    source: Array  # ids, int32[B, S], ending in EOS and then PAD; a row of PAD yields nothing
    limits: Array  # most tokens of an output, end mark counted, int32[B]
    minimum: Array  # words before the end mark may come, int32[B]; less than the limit
    prefix: Array  # ids that outputs begin with, then PAD, int32[B, P]; P may be 0
    number: Array  # names the sentence to the random keys of sampling, int32[B]


class Hypotheses(NamedTuple):
    """N outputs a sentence, the best first; fewer where the search found fewer."""

    tokens: Array  # int32[B, N, L]; ends with EOS unless the limit came first, then PAD
    log_probability: Array  # Σ_i log p(y_i), nats, float32[B, N]; 0 where there is none
    score: Array  # with the penalties, float32[B, N]; -inf where there is none
    alignments: Array  # float32[B, N, L, S]; zero behind the end


class _Beam(NamedTuple):
    """What one step hands to the next; a place is one of the K of a sentence."""

    step: Array  # int32[]
    previous: Array  # int32[K, B]
    log_p: Array  # of each place's hypothesis, float32[K, B]; -inf where there is none
    length: Array  # its tokens, int32[K, B]
    ended: Array  # whether it has its end mark, bool[K, B]
    covered: Array  # Σ_i α_ij, float32[K, B, S]; [K, B, 0] without a coverage penalty
    running: Array  # sentences still searched, bool[B]
    tokens: Array  # the word that each step put in each place, int32[L, K, B]
    parents: Array  # the place before the step of what is in a place after it, int32[L, K, B]
    alignments: Array  # of each place before the step, float32[L, K, B, S]


def search(
    model: Seq2Seq,
    params: dict,
    sentences: Sentences,
    config: DecodeConfig,
    *,
    longest: int,
    nbest: int = 1,
    members: int = 0,
    record: bool = True,
) -> Hypotheses:
    """Searches for the best outputs, or samples them where the temperature isn't 0.

    PAD and BOS are never chosen; probabilities are over all V words, so that a hypothesis's
    log-probability is that of the same target under teacher forcing. A sentence's search ends when
    no live hypothesis can still enter its n best; the others go on.

    Args:
      model: the model.
      params: its parameters; of an ensemble, those of all members stacked, `[M, ...]`.
      sentences: what is to be translated.
      config: beam size, penalties, temperature; static.
      longest: L, no limit is larger; static.
      nbest: N, hypotheses returned, at most K; when sampling, K itself. Static.
      members: M, 0 for a single model; an ensemble's probability is the mean of its members'.
      record: whether to return the alignments, which take B·K·L·S floats; else S is 0 in them.

    Returns:
      The hypotheses; those cut off at the limit come after those that ended.
    """
    places = nbest if config.temperature else config.beam_size
    stepper = Stepper(model, params, members)
    top_k = largest if kernels.may_run("top_k", model.config.kernels) else lax.top_k
    rows = stepper.start(sentences.source, places)
    recorded = sentences.source.shape[1] if record else 0
    beam = _first_beam(
        sentences, rows.memory.annotations.dtype, (longest, places, recorded), config
    )
    counts = _row_counts(places * len(sentences.source))
    for count, until in zip(counts, (*counts[1:], 0), strict=True):
        if count < counts[0]:
            rows = stepper.pack(rows, _open(beam), count)
        step = functools.partial(_step, stepper, top_k, sentences, config, nbest)
        beam, rows = lax.while_loop(
            lambda now, until=until: _open(now[0]).sum() > until, step, (beam, rows)
        )
    return _best(beam, sentences, nbest, config)


def _row_counts(most: int) -> tuple[int, ...]:
    """Returns for how many rows the loop is compiled, the most first.

    When no more than the next number are needed they are packed: what has ended, and a few long
    outputs, don't cost what all cost.
    """
    if most < 64:
        return (most,)
    return (most, most * 5 // 8, most * 3 // 8, most // 8)


def _open(beam: _Beam) -> Array:
    """Returns the places that may still change, `bool[K, B]`."""
    return ~beam.ended & beam.running[None]


def _step(
    stepper: Stepper,
    top_k: TopK,
    sentences: Sentences,
    config: DecodeConfig,
    nbest: int,
    carried: tuple[_Beam, Rows],
) -> tuple[_Beam, Rows]:
    """Continues every live hypothesis of the sentences that are still searched by one word."""
    now, rows = carried
    moved = _open(now)
    count, recorded = rows.memory.mask.shape[-2], now.alignments.shape[-1]
    row = row_of_place(rows.first, moved, count)
    rows, scores, log_z, alignment = stepper.step(rows, row, now.previous)
    alignment = of_places(alignment, row, 0.0)
    batch = sentences.source.shape[0]
    sentence = (
        jnp.zeros(count, jnp.int32)
        .at[row]
        .set(jnp.broadcast_to(jnp.arange(batch, dtype=jnp.int32)[None], row.shape), mode="drop")
    )
    minimum, prefix = sentences.minimum[sentence], sentences.prefix[sentence]
    may_come = allowed(now.step, minimum, prefix, config, scores.shape[-1])
    scores = jnp.where(may_come, scores, -jnp.inf)
    live = moved & (now.log_p > -jnp.inf)
    log_p, parent, token = (
        sample(now.log_p, now.step, sentences.number, scores - log_z, row, config)
        if config.temperature
        else extend(now.log_p, now.ended, live, scores, log_z, row, top_k)
    )
    # Places that are not searched any more stay as they are.
    here = jnp.broadcast_to(jnp.arange(len(row), dtype=jnp.int32)[:, None], row.shape)
    parent = jnp.where(moved, parent, here)
    grown = moved & (log_p > -jnp.inf)
    token = jnp.where(grown, token, PAD).astype(jnp.int32)
    covered = now.covered
    if config.coverage_penalty:
        covered = covered + jnp.where(live[..., None], alignment, 0.0)
        covered = jnp.take_along_axis(covered, parent[..., None], axis=0)
    after = now._replace(
        step=now.step + 1,
        previous=token,
        log_p=jnp.where(moved, log_p, now.log_p),
        length=jnp.where(grown, now.step + 1, now.length),
        ended=now.ended | (token == EOS),
        covered=covered,
        tokens=now.tokens.at[now.step].set(token),
        parents=now.parents.at[now.step].set(parent),
        alignments=now.alignments.at[now.step].set(alignment[..., :recorded]),
    )
    after = after._replace(running=_running(after, sentences, nbest, config))
    row_after = row_of_place(rows.first, _open(after), count)
    return after, stepper.reorder(rows, row, parent, row_after)


def _first_beam(
    sentences: Sentences, dtype: Any, sizes: tuple[int, int, int], config: DecodeConfig
) -> _Beam:
    longest, places, recorded = sizes
    batch, source_length = sentences.source.shape
    rows = (places, batch)
    # One empty hypothesis a sentence; the first step fills the other places with its children.
    alone = jnp.where(jnp.arange(places) == 0, 0.0, -jnp.inf).astype(dtype)
    samples = jnp.zeros(places, dtype)
    has_source = (sentences.source != PAD).any(axis=1)
    return _Beam(
        step=jnp.zeros((), jnp.int32),
        previous=jnp.full(rows, BOS, jnp.int32),
        log_p=jnp.broadcast_to((samples if config.temperature else alone)[:, None], rows),
        length=jnp.zeros(rows, jnp.int32),
        ended=jnp.zeros(rows, bool),
        covered=jnp.zeros((*rows, source_length if config.coverage_penalty else 0), dtype),
        running=has_source & (sentences.limits > 0),
        tokens=jnp.full((longest, *rows), PAD, jnp.int32),
        parents=jnp.broadcast_to(
            jnp.arange(places, dtype=jnp.int32)[None, :, None], (longest, *rows)
        ),
        alignments=jnp.zeros((longest, *rows, recorded), dtype),
    )


def _scores(beam: _Beam, source: Array, config: DecodeConfig) -> Array:
    """Returns log p / lp(n) + cp of every place, `float[K, B]`."""
    scores = beam.log_p / length_penalty(config, beam.length.astype(beam.log_p.dtype))
    if config.coverage_penalty:
        words = (source != PAD) & (source != EOS)
        scores += coverage_penalty(config, beam.covered, words[None])
    return scores


def _running(beam: _Beam, sentences: Sentences, nbest: int, config: DecodeConfig) -> Array:
    """Returns the sentences in which something may still enter the n best, `bool[B]`."""
    limits = sentences.limits
    live = ~beam.ended & (beam.log_p > -jnp.inf)
    running = beam.running & live.any(axis=0) & (beam.step < limits)
    if config.temperature:
        return running
    ended = jnp.where(beam.ended, _scores(beam, sentences.source, config), -jnp.inf)
    worst_kept = lax.top_k(ended.T, nbest)[0][:, -1]
    limit = jnp.broadcast_to(limits[None].astype(beam.log_p.dtype), beam.log_p.shape)
    best_possible = jnp.where(live, bound(config, beam.log_p, limit), -jnp.inf).max(axis=0)
    return running & (best_possible > worst_kept)


def _best(beam: _Beam, sentences: Sentences, nbest: int, config: DecodeConfig) -> Hypotheses:
    """Ranks the places and follows each of the n best back to its first word."""
    (longest, places, batch), limits = beam.tokens.shape, sentences.limits
    cut = ~beam.ended & (beam.log_p > -jnp.inf) & (beam.length == limits[None]) & (limits > 0)[None]
    scores = jnp.where(beam.ended | cut, _scores(beam, sentences.source, config), -jnp.inf)
    order = jnp.lexsort((-scores, ~beam.ended), axis=0)[:nbest].astype(jnp.int32)
    scores = jnp.take_along_axis(scores, order, axis=0)
    exists = scores > -jnp.inf

    def back(place: Array, step: tuple[Array, Array]):
        tokens, parents = step
        before = jnp.take_along_axis(parents, place, axis=0)
        return before, (jnp.take_along_axis(tokens, place, axis=0), before)

    _, (tokens, before) = lax.scan(back, order, (beam.tokens, beam.parents), reverse=True)
    tokens = jnp.where(exists[None], tokens, PAD)
    rows = before * batch + jnp.arange(batch, dtype=jnp.int32)[None, None]
    flat = beam.alignments.reshape(longest, places * batch, beam.alignments.shape[-1])
    alignments = jax.vmap(lambda alignment, rows: alignment[rows])(flat, rows)
    alignments = jnp.where((tokens != PAD)[..., None], alignments, 0.0)
    log_p = jnp.where(exists, jnp.take_along_axis(beam.log_p, order, axis=0), 0.0)
    return Hypotheses(
        tokens.transpose(2, 1, 0), log_p.T, scores.T, alignments.transpose(2, 1, 0, 3)
    )


def allowed(step: Array, minimum: Array, prefix: Array, config: DecodeConfig, size: int) -> Array:
    """Returns which words may come next, `bool[R, V]`: where one is forced, it alone.

    Args:
      step: i, counted from 0, int32[].
      minimum: words before the end mark may come, of each row, int32[R].
      prefix: ids that outputs begin with, then PAD, int32[R, P].
      config: `suppress_unk` is read.
      size: V.
    """
    word = jnp.arange(size)[None, :]
    never = (word == PAD) | (word == BOS)
    if config.suppress_unk:
        never |= word == UNK
    too_early = (word == EOS) & (step < minimum)[:, None]
    free = ~never & ~too_early
    width = prefix.shape[1]
    if width:
        forced = prefix[:, jnp.minimum(step, width - 1)]
        forced = jnp.where(step < width, forced, PAD)[:, None]
        free = jnp.where(forced == PAD, free, word == forced)
    return free


def extend(
    log_p: Array,
    ended: Array,
    live: Array,
    scores: Array,
    log_z: Array,
    row: Array,
    top_k: TopK,
) -> tuple[Array, Array, Array]:
    """Fills the places that are free with the likeliest continuations, the best first.

    Args:
      log_p: of each place's hypothesis, float[K, B].
      ended: places whose hypothesis has its end mark, bool[K, B]: they aren't free.
      live: places whose hypothesis can be continued, bool[K, B].
      scores: of each next word, float[R, V].
      log_z: log Σ exp of a row's scores: a score less this is a log-probability; float[R, 1].
      row: of each place, R where it has none, int32[K, B].
      top_k: `lax.top_k`, or what does the same.

    Returns:
      Each place's log-probability, its parent and its word, `[K, B]`.
    """
    (places, batch), size = log_p.shape, scores.shape[-1]
    kept = min(places, size)
    # The K best of all K·V are among the K best of each hypothesis.
    values, words = top_k(scores, kept)
    values, words = of_places(values - log_z, row, -jnp.inf), of_places(words, row, PAD)
    values = jnp.where(live[..., None], log_p[..., None] + values, -jnp.inf)
    values, words = (x.transpose(1, 0, 2).reshape(batch, places * kept) for x in (values, words))
    values, chosen = lax.top_k(values, places)
    words = jnp.take_along_axis(words, chosen, axis=1)
    parents = (chosen // kept).astype(jnp.int32)
    # The r-th free place receives the r-th best.
    rank = jnp.maximum(jnp.cumsum(~ended, axis=0) - 1, 0)
    best, parent, token = (jnp.take_along_axis(x.T, rank, axis=0) for x in (values, parents, words))
    return best, parent, token


def sample(
    log_p: Array, step: Array, number: Array, log_q: Array, row: Array, config: DecodeConfig
) -> tuple[Array, Array, Array]:
    """Draws each place's next word from p^(1 / temperature); result as of `extend`.

    The keys are folded from (seed, sentence, step, place): the batch plays no part.

    Args:
      log_p: of each place's hypothesis, float[K, B].
      step: i, int32[].
      number: of the sentence, int32[B].
      log_q: of each next word, float[R, V].
      row: of each place, R where it has none, int32[K, B].
      config: `temperature` and `seed` are read.
    """
    places, batch = log_p.shape
    log_q = of_places(log_q, row, 0.0)
    root = jax.random.key(config.seed)

    def draw(log_q, number, place):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, number), step), place)
        return jax.random.categorical(key, log_q / config.temperature)

    over_sentences = jax.vmap(draw, in_axes=(0, 0, None))
    token = jax.vmap(over_sentences, in_axes=(0, None, 0))(log_q, number, jnp.arange(places))
    chosen = jnp.take_along_axis(log_q, token[..., None], axis=-1)[..., 0]
    parent = jnp.broadcast_to(jnp.arange(places, dtype=jnp.int32)[:, None], (places, batch))
    return log_p + chosen, parent, token.astype(jnp.int32)
