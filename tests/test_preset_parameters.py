"""The presets have the parameters that the originals' configurations have, counted by hand.

Each count is written out from the files that the preset's header names, with the original's own
sizes of vocabularies; then come the differences that the header lists, one by one.
"""

import importlib

import pytest

from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.modes.explain import parameter_counts


def counted(name: str, source: int, target: int) -> int:
    model = importlib.import_module(f"experiments.{name}").get_config().model
    return sum(parameter_counts(Seq2Seq(model, source, target)).values())


def groundhog(contexts: int, directions: int, attention: int) -> int:
    """Counts GroundHog's parameters (encdec.py:569 to 957) with this project's differences.

    Args:
      contexts: c_dim.
      directions: of the encoder.
      attention: parameters of the alignment model.
    """
    V, E, H = 30_001, 620, 1000
    embeddings = 2 * (V * E + E)
    # Input, update and reset: matrices of the word and of the state; one bias, of the input.
    encoder = directions * (3 * E * H + H + 3 * H * H)
    decoder = 3 * E * H + H + 3 * H * H + 3 * contexts * H
    initializer = H * H + H
    readout = contexts * H + (H * H + H) + E * H
    output = (H // 2) * E + E * V + V
    original = embeddings + encoder + decoder + initializer + attention + readout + output
    without = 2 * E + H + (H // 2) * E + E * V  # biases of embeddings and of s_0; two matrices
    beside = (directions + 1) * 2 * H + (H // 2) * V  # biases of two gates a cell; one matrix
    return original - without + beside


def test_rnnsearch_as_groundhog_has_it():
    # A_cp, B_hp and D_pe.
    assert counted("groundhog_rnnsearch", 30_001, 30_001) == groundhog(
        2000, 2, 2000 * 1000 + 1000 * 1000 + 1000
    )


def test_rnnencdec_as_groundhog_has_it():
    assert counted("rnnencdec_50", 30_001, 30_001) == groundhog(1000, 1, 0)


def test_rnnsearch_as_the_papers_appendix_has_it():
    m, n, n_a, l, K = 620, 1000, 1000, 500, 30_000  # noqa: E741 (the paper's letter)
    encoder = K * m + 2 * (3 * n * m + 3 * n * n)  # E; W, W_z, W_r and U, U_z, U_r (A.2.1)
    decoder = K * m + 3 * n * m + 3 * n * n + 3 * n * 2 * n + n * n  # C, C_z, C_r; W_s (A.2.2)
    alignment = n_a + n_a * n + n_a * 2 * n  # v_a, W_a, U_a
    readout = 2 * l * n + 2 * l * m + 2 * l * 2 * n + K * l  # U_o, V_o, C_o; W_o
    biases = 3 * 3 * n + 2 * l + K  # which the equations leave out
    original = encoder + decoder + alignment + readout + biases
    assert counted("rnnsearch_50", K, K) == original


def test_luongs_attention():
    H, V, layers = 1000, 50_003, 4
    embeddings = 2 * V * H
    encoder = layers * (4 * H) * (2 * H)  # trainLSTM.m:427
    decoder = layers * (4 * H) * (2 * H) + (4 * H) * H  # :434, and what is fed, :437
    attention = H * H + H + H * H + H * 2 * H  # W_pos, v_pos, W_a, W_h; :477 to 494
    output = V * H
    original = embeddings + encoder + decoder + attention + output
    biases = 2 * layers * 4 * H + V
    assert counted("luong_2015", V, V) == original + biases


def test_liums_conditional_gru():
    E, H, C, source, target = 128, 256, 512, 5_000, 7_000
    embeddings = (source + target) * E
    gru = (E * 2 * H + 2 * H) + H * 2 * H + (E * H + H) + H * H  # layers.py:220 to 236
    norms = 2 * (2 * H + H + 2 * H + H)  # b1 to b4 and s1 to s4, layers.py:71 to 78
    initial = C * H + H
    second = (2 * H * H + 2 * H) + (H * H + H) + C * 2 * H + C * H  # layers.py:308 to 317
    attention = H * C + (C * C + C) + C + 1  # layers.py:321 to 330
    readout = (H * E + E) + (E * E + E) + (C * E + E)  # attention.py:362 to 365
    output = E * target + target
    original = embeddings + 2 * (gru + norms) + initial + gru + second + attention + readout
    original += output
    # Biases: of s_0, of the energy, two of the readout's three, and those of the norms.
    without = H + 1 + 2 * E + 2 * 6 * H
    beside = 4 * H  # a second bias of the proposal in each of four cells
    assert counted("lium_multi30k", source, target) == original - without + beside


def test_toshniwals_decoder():
    E, H, A, C, source, target = 512, 512, 64, 1024, 29, 42

    def lstm(inputs: int) -> int:
        return 4 * H * (inputs + H + 1)

    encoder = 2 * (lstm(E) + 2 * lstm(C))  # encoder.py:118
    words = H * target + target  # OutputProjectionWrapper, decoder.py:78
    fed = (E + C) * E + E  # InputProjection, attn_decoder.py:120
    attention = C * A + (target * A + A) + A  # :49, 68, 52; the words' projection queries
    output = (target + C) * target + target  # AttnOutputProjection, :100
    decoder = 3 * lstm(E) + words + fed + attention + output
    original = (source + target) * E + encoder + decoder
    without = words + fed + target * A + output
    # C of the first cell; the state queries; tanh of state and context.
    beside = C * 4 * H + H * A + (H * H + C * H + H) + (H * target + target)
    assert counted("toshniwal_g2p", source, target) == original - without + beside


def test_britzs_decoder():
    # The preset's sizes in the original's form.
    E, H, D, A, V = 128, 128, 256, 512, 8_000
    C = 2 * H
    encoder = 2 * 4 * H * (E + H + 1)
    decoder = 4 * D * (E + C + D + 1)  # word and context side by side, attention_decoder.py:156
    attention = (C * A + A) + (D * A + A) + A  # att_keys, att_query, v_att; attention.py:100
    output = ((D + C) * D + D) + (D * V + V)  # attention_mix, logits; attention_decoder.py:128
    original = 2 * V * E + encoder + decoder + attention + output
    one_bias = A  # of keys and query together
    assert counted("britz_grid", V, V) == original - one_bias


@pytest.mark.parametrize(
    ("name", "beam"),
    [
        ("rnnsearch_50", 10),
        ("groundhog_rnnsearch", 10),
        ("rnnencdec_50", 10),
        ("luong_2015", 12),
        ("lium_multi30k", 12),
        ("toshniwal_g2p", 1),
        ("britz_grid", 1),
    ],
)
def test_each_searches_with_the_beam_of_its_figure(name, beam):
    assert importlib.import_module(f"experiments.{name}").get_config().decode.beam_size == beam
