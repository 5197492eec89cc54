"""All models in other precisions: moved as a whole, and near the full-precision result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import toy
from tests.models.every_model import SUBJECTS, Subject

HALF = [torch.float16, torch.bfloat16]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MODELS = [name for name in SUBJECTS if "norm" not in name]


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return SUBJECTS[request.param](tmp_path_factory.mktemp("subject"))


def prepared(subject: Subject) -> Any:
    """A model that fairseq has prepared for decoding, as its hub does before a user can move it."""
    model = subject.make()
    toy.randomise_adapters(model)
    model.make_generation_fast_()
    return model


@pytest.mark.parametrize("subject", MODELS, indirect=True)
def test_a_model_moves_as_a_whole(subject: Subject) -> None:
    model, dtype = prepared(subject), torch.bfloat16
    with torch.no_grad():
        full, moved = subject.run(model, subject.inputs), subject.run(model.to(dtype), subject.inputs)
    assert {value.dtype for value in model.parameters()} == {dtype}
    # Half precision keeps two to three decimals; logits of random weights are of the order of ten.
    torch.testing.assert_close(moved.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)


@pytest.mark.parametrize("subject", MODELS, indirect=True)
def test_nothing_stays_behind(subject: Subject) -> None:
    """On another device, as after ``cuda()``; but for what fairseq itself moves when it is used."""
    model = prepared(subject)
    with torch.no_grad():
        subject.run(model, subject.inputs)
    model.to("meta")
    for name, module in model.named_modules():
        own = {key: value for key, value in vars(module).items() if key not in ("_future_mask", "weights")}
        assert all(value.is_meta for value in tensors_in(own)), name


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(inner)


@pytest.mark.parametrize(
    ("device", "dtype"),
    [("cpu", torch.bfloat16), *(pytest.param("cuda", d, marks=[pytest.mark.gpu, needs_gpu]) for d in HALF)],
)
def test_gates_are_in_full_precision(data: Path, device: str, dtype: torch.dtype) -> None:
    task, args = toy.make_task(data)
    model = toy.make_model(task, args).to(device)
    toy.randomise_adapters(model)
    net_input = {name: value.to(device) for name, value in toy.first_batch(task)["net_input"].items()}
    with torch.no_grad():
        full, _ = model(**net_input)
        half, extra = model.to(dtype)(**net_input)
    assert all(gate.dtype == torch.float32 for side in extra["gate_logits"].values() for gate in side)
    torch.testing.assert_close(half.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)
