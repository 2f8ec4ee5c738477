"""The sequence-to-sequence model: encode, teacher-forced logits, and one step of decoding."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import equations, kernels
from bahdanau_jax.model.attention import Memory
from bahdanau_jax.model.decoder import Decoder, DecoderState, Readout
from bahdanau_jax.model.dropout import Noise, Place, dropout, is_off, word_dropout
from bahdanau_jax.model.encoder import Encoder
from bahdanau_jax.model.initialization import initialization
from bahdanau_jax.model.kernels.output_loss import output_loss, output_nll
from bahdanau_jax.special_ids import BOS, PAD


class LossSums(NamedTuple):
    """Sums over the real target tokens of a batch, `float32[]`."""

    loss: Array  # what is minimised: `equations.smoothed_nll` and weighted losses of alignments
    nll: Array  # -log p(y_i), nats; it hands no gradient on
    of_alignments: dict[str, Array]  # those of alignments that count, by name, without weight


class Seq2Seq(nn.Module):
    """Encoder, alignment model, decoder and readout under one tree of parameters.

    Attributes:
      config: the model's configuration.
      source_size: entries of the source vocabulary.
      target_size: V, entries of the target vocabulary.
      stored: the type in which keys and annotations are kept while the decoder runs.
    """

    config: ModelConfig
    source_size: int
    target_size: int
    stored: str = "float32"  # float32 (that of the parameters) | bfloat16

    def setup(self):
        """Declares the embeddings, the parts, and the output layer W_o, b_w."""
        config, init = self.config, initialization(self.config.initialization)
        if config.tie_embeddings != "all":
            self.source_embedding = self.param(
                "source_embedding", init.embedding, (self.source_size, config.embedding)
            )
        self.target_embedding = self.param(
            "target_embedding", init.embedding, (self.target_size, config.embedding)
        )
        if config.tie_embeddings == "all":  # one vocabulary, so that the ids mean the same
            self.source_embedding = self.target_embedding
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.readout = Readout(config)
        if config.tie_embeddings == "none":
            shape = (config.readout_size, self.target_size)
            self.W_o = self.param("W_o", init.kernel, shape)
        self.b_w = self.param("b_w", init.bias, (self.target_size,))

    def encode(self, source: Array, noise: Noise | None = None) -> Memory:
        """Reads the source sentences.

        Args:
          source: ids, `int32[B, S]`, ending in the end mark and then PAD.
          noise: the randomness of dropout; None for none.
        """
        mask = source != PAD
        embedded = self.source_embedding[source.T]
        if noise is not None:
            rates = noise.rates
            embedded = word_dropout(embedded, rates.source_words, noise, Place.SOURCE_WORDS)
            embedded = dropout(embedded, rates.embedding, noise, Place.SOURCE_EMBEDDING)
        annotations, final, layers = self.encoder(embedded, mask.T, noise)
        if noise is not None:
            annotations = dropout(annotations, noise.rates.annotations, noise, Place.ANNOTATIONS)
        annotations = annotations.swapaxes(0, 1)
        keys = self.decoder.keys(annotations)
        if self.stored == "bfloat16":
            annotations, keys = annotations.astype(jnp.bfloat16), keys.astype(jnp.bfloat16)
        return Memory(annotations, keys, mask, final, layers)

    def __call__(
        self, source: Array, target: Array, noise: Noise | None = None
    ) -> tuple[Array, Array]:
        """Predicts every target word from the true words before it.

        Args:
          source: `int32[B, S]`.
          target: `int32[B, T]`, ending in the end mark and then PAD.
          noise: the randomness of dropout; None for none.

        Returns:
          The logits, `float32[B, T, V]`, and the alignments, `float32[B, T, S]`.
        """
        readout, alignments = self._teacher_forced(source, target, noise)
        return self.logits(readout.swapaxes(0, 1)), alignments.swapaxes(0, 1)

    def loss_sums(
        self,
        source: Array,
        target: Array,
        noise: Noise | None,
        smoothing: float | Array,
        coverage: float = 0.0,
        guide: float = 0.0,
        links: Array | None = None,
    ) -> LossSums:
        """Returns what training minimises and its parts, over all real target tokens.

        Args:
          source: `int32[B, S]`.
          target: `int32[B, T]`.
          noise: the randomness of dropout; None for none.
          smoothing: ε of label smoothing.
          coverage: λ of `equations.coverage_loss`.
          guide: weight of `equations.guide_loss`.
          links: what each target word should attend to, `float32[B, T, S]`; read where `guide` is
            above 0.
        """
        readout, alignments = self._teacher_forced(source, target, noise)
        loss, nll = self._output_sums(readout, target, smoothing)
        of_alignments = {}
        if coverage > 0:
            steps = equations.coverage_loss(alignments)
            of_alignments["coverage"] = jnp.sum(steps, where=target.T != PAD)
            loss = loss + coverage * of_alignments["coverage"]
        if guide > 0 and links is not None:
            steps = equations.guide_loss(alignments, links.swapaxes(0, 1))
            of_alignments["guide"] = jnp.sum(steps, where=target.T != PAD)
            loss = loss + guide * of_alignments["guide"]
        return LossSums(loss, nll, of_alignments)

    def _output_sums(
        self, readout: Array, target: Array, smoothing: float | Array
    ) -> tuple[Array, Array]:
        """Returns the sums of `equations.smoothed_nll`, and of `token_nll` without a gradient."""
        if kernels.may_run("output_loss", self.config.kernels):
            tokens, y = readout.reshape(-1, readout.shape[-1]), target.T.reshape(-1)
            return output_loss(tokens, self._output_weights(), self.b_w, y, y != PAD, smoothing)
        logits, y = self.logits(readout), target.T
        loss = equations.smoothed_nll(logits, y, smoothing)
        nll = equations.token_nll(jax.lax.stop_gradient(logits), y)
        return jnp.sum(loss, where=y != PAD), jnp.sum(nll, where=y != PAD)

    def target_nll(self, source: Array, target: Array) -> Array:
        """Returns -log p(y_i) of every target token, in nats; zero at PAD.

        Args:
          source: `int32[B, S]`.
          target: `int32[B, T]`.

        Returns:
          `float32[B, T]`.
        """
        readout, _ = self._teacher_forced(source, target, None)
        if kernels.may_run("output_loss", self.config.kernels):
            tokens, y = readout.reshape(-1, readout.shape[-1]), target.T.reshape(-1)
            nll = output_nll(tokens, self._output_weights(), self.b_w, y).reshape(target.T.shape)
        else:
            nll = equations.token_nll(self.logits(readout), target.T)
        return jnp.where(target != PAD, nll.T, 0.0)

    def _teacher_forced(
        self, source: Array, target: Array, noise: Noise | None
    ) -> tuple[Array, Array]:
        """Returns t_i, `float32[T, B, R]`, and the alignments, `float32[T, B, S]`."""
        memory = self.encode(source, noise)
        previous = jnp.pad(target[:, :-1], ((0, 0), (1, 0)), constant_values=BOS)
        embedded = self.target_embedding[previous.T]
        if noise is not None:
            rates = noise.rates
            if not is_off(rates.target_words):
                dropped = word_dropout(embedded, rates.target_words, noise, Place.TARGET_WORDS)
                # The begin mark, which every sentence has, is no word.
                embedded = jnp.concatenate([embedded[:1], dropped[1:]])
            embedded = dropout(embedded, rates.embedding, noise, Place.TARGET_EMBEDDING)
        outputs = self.decoder(memory, embedded, noise)
        readout = self.readout(outputs.state, embedded, outputs.context, outputs.attentional)
        if noise is not None:
            readout = dropout(readout, noise.rates.readout, noise, Place.READOUT)
        return readout, outputs.alignment

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns the state before the first word."""
        return self.decoder.initial_state(memory)

    def decode_step(
        self, state: DecoderState, previous: Array, memory: Memory
    ) -> tuple[DecoderState, Array, Array]:
        """Predicts one word.

        Args:
          state: what the step before left.
          previous: y_{i-1}, `int32[B]`; BOS at the first step.
          memory: what `encode` returned.

        Returns:
          The next state, the logits `float32[B, V]`, and the alignment `float32[B, S]`.
        """
        embedded = self.target_embedding[previous]
        state, output = self.decoder.step(state, memory, embedded)
        readout = self.readout(output.state, embedded, output.context, output.attentional)
        return state, self.logits(readout), output.alignment

    def logits(self, readout: Array) -> Array:
        """Returns W_o t_i + b_w, `float32[..., V]`."""
        logits = readout @ self._output_weights()
        return logits + jnp.broadcast_to(self.b_w, logits.shape)

    def _output_weights(self) -> Array:
        return self.W_o if self.config.tie_embeddings == "none" else self.target_embedding.T


def initial_params(model: Seq2Seq, key: Array) -> dict[str, Any]:
    """Returns the parameters before training, drawn with `key`."""
    tokens = jnp.zeros((1, 2), jnp.int32)
    return dict(model.init(key, tokens, tokens)["params"])
