"""Which parameters train: the adapters and their routers, nothing of the base model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from torch import nn

# Everything an adapted layer adds lives below its attribute of this name.
ADAPTER = "adapter"


def is_adapter_key(name: str) -> bool:
    """Whether a parameter or state-dict name belongs to an adapter or its router."""
    return ADAPTER in name.split(".")


def freeze_base(model: nn.Module, is_trained: Callable[[str], bool] = is_adapter_key) -> None:
    """Stop gradients to everything but adapters and routers, or what else ``is_trained`` says by its name."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(is_trained(name))


class FrozenBase(nn.Module):
    """A model whose base is frozen, to be named before fairseq's class.

    Attributes:
        frozen_mode: ``eval`` or ``train``, the mode of the base while the adapters train.
    """

    frozen_mode: str = "train"

    def is_trained(self, name: str) -> bool:
        """Whether a parameter or module trains."""
        return is_adapter_key(name)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode and self.frozen_mode == "eval":
            for name, module in self.named_modules():
                module.training = not name or self.is_trained(name)
        return self
