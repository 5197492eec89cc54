"""A bank of adapters whose values are far from their start."""

from typing import Any

import torch
from torch import nn


def randomised(bank: Any, std: float = 0.5) -> Any:
    torch.manual_seed(1)
    for parameter in bank.parameters():
        nn.init.normal_(parameter, std=std)
    return bank
