"""Sizes of models: architectures of fairseq's with other defaults."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq.models import register_model_architecture

Architecture = Callable[[Namespace], None]
# For two CPU cores, and for tests.
SMALL = {"embed_dim": 192, "ffn_embed_dim": 768, "layers": 4, "attention_heads": 4}
TINY = {"embed_dim": 32, "ffn_embed_dim": 64, "layers": 2, "attention_heads": 2}


def of_side(side: str, size: dict[str, int]) -> dict[str, int]:
    """The options of an encoder's or a decoder's size."""
    return {f"{side}_{name}": value for name, value in size.items()}


def sized(base: Architecture, **size: Any) -> Architecture:
    """An architecture that sets what neither the command line nor another preset has set; ``base`` does the rest."""

    def architecture(args: Namespace) -> None:
        for name, value in size.items():
            setattr(args, name, getattr(args, name, value))
        base(args)

    return architecture


def register_presets(model: str, **presets: Architecture) -> None:
    """Register the architectures ``MODEL_PRESET`` of a model."""
    for name, preset in presets.items():
        register_model_architecture(model, f"{model}_{name}")(preset)
