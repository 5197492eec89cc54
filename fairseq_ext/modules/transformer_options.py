"""Options that this package adds to fairseq's Transformers, with fairseq's behaviour as the default."""

from typing import Any

ATTENTION, SSRU = "attention", "ssru"
AUTOREGRESSIVE_LAYERS = (ATTENTION, SSRU)
TRANSFORMER_OPTIONS: dict[str, Any] = {
    "autoregressive_layer": ATTENTION,
    "layer_norm_epsilon": 1e-5,
    "zero_start": False,
}
