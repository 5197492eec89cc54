"""Freezing of the base model: only adapters and their routers are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from torch import nn

# Attribute of an adapted layer that holds all added modules.
ADAPTER = "adapter"
# Entry of a model's options: the rates of dropout with which its base was trained; its own may be others.
BASE_RATES = "base_rates"


def is_adapter_key(name: str) -> bool:
    """Return whether a parameter or state-dict name belongs to an adapter or its router."""
    return ADAPTER in name.split(".")


def freeze_base(model: nn.Module, is_trained: Callable[[str], bool] = is_adapter_key) -> None:
    """Freeze all parameters except those for whose names ``is_trained`` is true (default: adapters and routers)."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(is_trained(name))


class FrozenBase(nn.Module):
    """A model with a frozen base. Mixin; must precede fairseq's class in the bases.

    Attributes:
        frozen_mode: ``eval`` or ``train``, the mode of the base while the adapters train.
    """

    frozen_mode: str = "train"

    def is_trained(self, name: str) -> bool:
        """Return whether the parameter or module of this name is trained."""
        return is_adapter_key(name)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if mode and self.frozen_mode == "eval":
            for name, module in self.named_modules():
                module.training = not name or self.is_trained(name)
        return self
