"""Model sizes: fairseq architectures with other defaults. An option of every model with a frozen base."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq.models import register_model_architecture

from fairseq_ext.base.option import option

Architecture = Callable[[Namespace], None]
RANDOM_BASE: bool = option(
    False, "allow training without --finetune-from-model, on a base with random weights (default: stop)"
)
# For two CPU cores, and for tests.
SMALL = {"embed_dim": 192, "ffn_embed_dim": 768, "layers": 4, "attention_heads": 4}
TINY = {"embed_dim": 32, "ffn_embed_dim": 64, "layers": 2, "attention_heads": 2}


def of_side(side: str, size: dict[str, int]) -> dict[str, int]:
    """Return the size options of an encoder or a decoder."""
    return {f"{side}_{name}": value for name, value in size.items()}


def sized(base: Architecture, **size: Any) -> Architecture:
    """Return an architecture that sets the sizes that are not set yet, and then calls ``base``."""

    def architecture(args: Namespace) -> None:
        for name, value in size.items():
            setattr(args, name, getattr(args, name, value))
        base(args)

    return architecture


def register_presets(model: str, **presets: Architecture) -> None:
    """Register presets of a model as architectures ``MODEL_PRESET``."""
    for name, preset in presets.items():
        register_model_architecture(model, f"{model}_{name}")(preset)
