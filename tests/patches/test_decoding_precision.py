from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.models import BaseFairseqModel

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.models import lower_precision
from tests import toy

AD, GAD = "transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"


def made(data: Path, arch: str) -> Any:
    task, args = toy.make_task(data, arch=arch)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return model


def log_probs(model: Any) -> torch.Tensor:
    tokens = torch.tensor([[5, 9, 7, 2], [8, 6, 11, 2]])
    given = {"domain_ids": torch.tensor([0, 2])} if "domain" in type(model).__module__ else {}
    out = model(tokens, torch.tensor([4, 4]), tokens.roll(1, 1), **given)
    probs: torch.Tensor = model.get_normalized_probs(out, log_probs=True).float()
    return probs


@pytest.mark.parametrize("arch", [AD, GAD])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_smaller_numbers_are_near(data: Path, arch: str, precision: str) -> None:
    model = made(data, arch).eval()
    exact = log_probs(model)
    lower_precision(model, precision)
    rounded = log_probs(model)
    assert not torch.equal(rounded, exact)
    torch.testing.assert_close(rounded, exact, atol=0.15, rtol=0.05)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_commands_lower_models_made_ready_for_inference(data: Path, precision: str) -> None:
    """And no other: a training asks for nothing, and its validation translates with the model that trains."""
    model = made(data, GAD).eval()
    cfg = toy.composed(toy.train_args(data, "--decoding-precision", precision))
    other = copy.deepcopy(model)
    model.prepare_for_inference_(cfg)
    assert model.encoder.layers[0].fc1.weight.dtype == getattr(torch, precision)
    BaseFairseqModel.prepare_for_inference_(other, toy.composed(toy.train_args(data)))
    assert {p.dtype for p in other.parameters()} == {torch.float32}


def test_int8_is_for_cpus(data: Path) -> None:
    with pytest.raises(InputError, match="--decoding-precision int8: is for CPUs"):
        lower_precision(made(data, GAD).to("meta"), "int8")
