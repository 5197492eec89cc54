from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.patches.models import lower_precision
from tests import toy


def made(data: Path) -> Any:
    task, args = toy.make_task(data, arch="transformer_gated_adapter_tiny")
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return model.eval()


def log_probs(model: Any) -> torch.Tensor:
    tokens = torch.tensor([[5, 9, 7, 2], [8, 6, 11, 2]])
    out = model(tokens, torch.tensor([4, 4]), tokens.roll(1, 1), domain_ids=torch.tensor([0, 2]))
    probs: torch.Tensor = model.get_normalized_probs(out, log_probs=True).float()
    return probs


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_smaller_numbers_are_near(data: Path, precision: str) -> None:
    model = made(data)
    exact = log_probs(model)
    lower_precision(model, precision)
    rounded = log_probs(model)
    assert torch.equal(rounded, exact) == (precision == "float32")
    torch.testing.assert_close(rounded, exact, atol=0.15, rtol=0.05)


def test_commands_lower_models_made_ready_for_inference(data: Path) -> None:
    model = made(data)
    model.prepare_for_inference_(toy.composed(toy.train_args(data, "--decoding-precision", "bfloat16")))
    assert model.encoder.layers[0].fc1.weight.dtype == torch.bfloat16
