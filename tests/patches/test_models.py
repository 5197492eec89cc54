from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import toy_systems


def log_probs(model: Any) -> torch.Tensor:
    tokens = torch.tensor([[5, 9, 7, 2], [8, 6, 11, 2]])
    out = model(tokens, torch.tensor([4, 4]), tokens.roll(1, 1), domain_ids=torch.tensor([0, 2]))
    probs: torch.Tensor = model.get_normalized_probs(out, log_probs=True).float()
    return probs


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_inference_in_lower_precision_is_near_full_precision(data: Path, precision: str) -> None:
    _, _, model = toy_systems.make_system(data, "gad")
    exact = log_probs(model)
    model.prepare_for_inference_(Namespace(generation=Namespace(), task=Namespace(decoding_precision=precision)))
    rounded = log_probs(model)
    assert model.encoder.layers[0].fc1.weight.dtype == getattr(torch, precision)
    assert torch.equal(rounded, exact) == (precision == "float32")
    torch.testing.assert_close(rounded, exact, atol=0.15, rtol=0.05)
