"""The models that searches are tested with: one of each moment of the query."""

from typing import Any

from bahdanau_jax.config import DecoderConfig, EncoderConfig

# Fields of ModelConfig by name; those of `attention` as a dictionary.
MODELS: dict[str, dict[str, Any]] = {
    "rnnsearch": {},
    "luong": {
        "cell": "lstm",
        "encoder": EncoderConfig(units=5, layers=2),
        "decoder": DecoderConfig(units=5, layers=2),
        "initial_state": "layers",
        "reverse_source": True,
        "attention": {"score": "general", "query": "current", "window": "local_m"},
        "feeding": "attentional",
        "readout": "attentional",
    },
    "conditional": {
        "gru_reset": "after",
        "attention": {"query": "intermediate", "coverage": True},
        "initial_state": "mean",
    },
}
