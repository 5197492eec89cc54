"""The epsilon of an encoder's layer norms, kept with its weights where it is not torch's own."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.text_entry import read_text, text_entry

ENTRY = "layer_norm_eps"
_LARGEST = 1e-2


def norm_eps_entry(eps: float) -> Tensor:
    """The epsilon as an entry of a state dict; as text, since half precision would make 1e-12 zero."""
    return text_entry(repr(eps))


def set_norm_eps(encoder: nn.Module, eps: float) -> None:
    """Give all layer norms of an encoder an epsilon, and the encoder's state dict the entry that tells it."""
    for module in encoder.modules():
        # By the class's name: where apex is installed, fairseq's norms are no nn.LayerNorm.
        if type(module).__name__.endswith("LayerNorm"):
            module.eps = eps  # type: ignore[assignment]
    encoder.register_buffer(ENTRY, norm_eps_entry(eps).to(next(encoder.parameters())))


def take_norm_eps(encoder: nn.Module, state: Mapping[str, Tensor], prefix: str) -> None:
    """Set the epsilon that a state dict has for an encoder, if any.

    Args:
        encoder: that will load the state.
        state: of the model.
        prefix: of the encoder's entries.
    """
    entry = state.get(prefix + ENTRY)
    if entry is None:
        return
    try:
        eps = float(read_text(entry))
    except ValueError:
        eps = 0.0
    if not 0 < eps <= _LARGEST:
        raise InputError(f"the checkpoint's entry {prefix}{ENTRY} is no epsilon; the file is damaged")
    set_norm_eps(encoder, eps)
