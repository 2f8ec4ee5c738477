"""Which word continues a hypothesis: the likeliest, or one that is drawn."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.model.kernels.top_k import largest
from bahdanau_jax.search.hypotheses import of_places
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK


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
    log_p: Array, ended: Array, live: Array, scores: Array, log_z: Array, row: Array
) -> tuple[Array, Array, Array]:
    """Fills the places that are free with the likeliest continuations, the best first.

    Args:
      log_p: of each place's hypothesis, float[K, B].
      ended: places whose hypothesis has its end mark, bool[K, B]: they aren't free.
      live: places whose hypothesis can be continued, bool[K, B].
      scores: of each next word, float[R, V].
      log_z: what they have too much to be log-probabilities, float[R, 1].
      row: of each place, R where it has none, int32[K, B].

    Returns:
      Each place's log-probability, its parent and its word, `[K, B]`.
    """
    (places, batch), size = log_p.shape, scores.shape[-1]
    kept = min(places, size)
    # The K best of all K·V are among the K best of each hypothesis.
    values, words = largest(scores, kept)
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
