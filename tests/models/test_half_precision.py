"""Adapter models in half precision: near the full-precision result, gates summed in float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests import toy

ARCHS = ["transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"]


def check(data: Path, arch: str, dtype: torch.dtype, device: str) -> None:
    task, args = toy.make_task(data, arch=arch)
    model = toy.make_model(task, args).to(device)
    toy.randomise_adapters(model)
    net_input = {name: value.to(device) for name, value in toy.first_batch(task)["net_input"].items()}
    with torch.no_grad():
        full, _ = model(**net_input)
        half, extra = model.to(dtype)(**net_input)
    assert half.dtype == dtype
    assert all(gate.dtype == torch.float32 for side in extra["gate_logits"].values() for gate in side)
    # Half precision keeps two to three decimals; logits of random weights are of the order of ten.
    torch.testing.assert_close(half.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)


@pytest.mark.parametrize("arch", ARCHS)
def test_bfloat16_on_the_cpu(data: Path, arch: str) -> None:
    check(data, arch, torch.bfloat16, "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_a_gpu(data: Path, arch: str, dtype: torch.dtype) -> None:
    check(data, arch, dtype, "cuda")
