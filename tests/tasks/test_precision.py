from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.optim.adam import Adam
from fairseq.tasks import FairseqTask

from fairseq_ext.tasks import precision
from fairseq_ext.tasks.precision import has_bfloat16_units
from tests import toy


class Optimizer:
    """The part of fairseq's that a step uses."""

    def __init__(self, model: Any) -> None:
        self.optimizer = Adam([p for p in model.parameters() if p.requires_grad], lr=0.01, betas=(0.9, 0.98))

        self.step = self.optimizer.step

    backward = staticmethod(torch.Tensor.backward)


def trained(data: Path, *options: str) -> tuple[Any, list]:
    """The model and the losses of some updates."""
    task, args = toy.make_task(data, "--dropout", "0.2", *options)
    model = toy.make_model(task, args, train=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    optimizer = Optimizer(model)
    task.load_dataset("train", combine=True)
    dataset = task.datasets["train"]
    batch = dataset.collater([dataset[i] for i in range(0, len(dataset), len(dataset) // 12)])  # of all domains
    task.begin_epoch(1, model)
    losses = []
    for update in range(3):
        torch.manual_seed(update)
        model.zero_grad()
        losses.append(float(task.train_step(batch, model, criterion, optimizer, update)[0].detach()))
        task.optimizer_step(optimizer, model, update)
    return model, losses


def test_float32_is_what_fairseq_computes_bit_for_bit(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, losses = trained(data)
    monkeypatch.setattr(precision.Precision, "train_step", FairseqTask.train_step)
    theirs, their_losses = trained(data)
    assert losses == their_losses
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_bfloat16_has_nearly_the_losses_of_float32(data: Path) -> None:
    exact, rounded = (trained(data, "--dropout", "0", "--cpu-precision", name) for name in ("float32", "bfloat16"))
    assert rounded[1] != exact[1]
    assert rounded[1] == pytest.approx(exact[1], rel=5e-3)
    assert {p.dtype for p in rounded[0].parameters()} == {torch.float32}


@pytest.mark.parametrize("has_units", [False, True])
def test_auto_is_bfloat16_where_the_processor_has_units_for_it(
    data: Path, monkeypatch: pytest.MonkeyPatch, has_units: bool
) -> None:
    monkeypatch.setattr(precision, "has_bfloat16_units", lambda: has_units)
    task, _ = toy.make_task(data, "--cpu-precision", "auto")
    assert task.cpu_precision == ("bfloat16" if has_units else "float32")


@pytest.mark.parametrize("name", ["avx512_bf16", "amx_bf16", "bf16", "bf16x"])
def test_units_are_read_from_the_systems_facts(tmp_path: Path, name: str) -> None:
    (tmp_path / "cpuinfo").write_text(f"flags : fpu {name} fma\n")
    assert has_bfloat16_units(tmp_path / "cpuinfo") == (name != "bf16x")
    assert not has_bfloat16_units(tmp_path / "none")
