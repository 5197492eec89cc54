import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.optim.adam import Adam
from fairseq.tasks import FairseqTask

from fairseq_ext.tasks import precision
from fairseq_ext.tasks.precision import PRECISIONS, time_steps
from tests import toy


class Optimizer:
    """The part of fairseq's that a step uses."""

    def __init__(self, model: Any) -> None:
        self.optimizer = Adam([p for p in model.parameters() if p.requires_grad], lr=0.01, betas=(0.9, 0.98))

        self.step = self.optimizer.step

    backward = staticmethod(torch.Tensor.backward)


def trained(data: Path, *options: str, start: dict[str, Any] | None = None) -> tuple[Any, Any, list]:
    """The task, the model and the losses of some updates."""
    task, args = toy.make_task(data, "--dropout", "0.2", *options)
    model = toy.make_model(task, args, train=True)
    for parameter in model.parameters():
        parameter.requires_grad_()
    if start is not None:
        task.resume_step(start)
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
    return task, model, losses


def fastest_is(monkeypatch: pytest.MonkeyPatch, chosen: str) -> list[int]:
    """Let this way be the fastest; returns a list with an item for each time one is measured."""
    measured: list[int] = []

    def time_steps(run: Any) -> dict[str, float]:
        measured.append(1)
        for name in PRECISIONS:
            run(name)
        return {name: 0.5 if name == chosen else 1.0 for name in PRECISIONS}

    monkeypatch.setattr(precision, "time_steps", time_steps)
    return measured


def test_float32_is_what_fairseq_computes_bit_for_bit(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ours, losses = trained(data)
    monkeypatch.setattr(precision.Precision, "train_step", FairseqTask.train_step)
    _, theirs, their_losses = trained(data)
    assert losses == their_losses
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_bfloat16_has_nearly_the_losses_of_float32(data: Path) -> None:
    _, _, exact = trained(data, "--dropout", "0")
    task, model, rounded = trained(data, "--dropout", "0", "--cpu-precision", "bfloat16")
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=5e-3)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert "cpu_step" not in task.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("chosen", PRECISIONS)
def test_auto_trains_as_the_way_it_chose(data: Path, monkeypatch: pytest.MonkeyPatch, chosen: str) -> None:
    """Measuring leaves no trace: neither in weights and gradients nor in random numbers."""
    measured = fastest_is(monkeypatch, chosen)
    task, model, losses = trained(data, "--cpu-precision", "auto")
    assert len(measured) == 1
    assert task.state_dict()["cpu_step"] == chosen
    resumed, same, again = trained(data, "--cpu-precision", "auto", start=copy.deepcopy(task.state_dict()))
    assert len(measured) == 1
    assert resumed.chosen_step == chosen
    assert losses == again
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in model.state_dict().items())
    assert losses == trained(data, "--cpu-precision", chosen)[2]


def test_precisions_are_timed_in_turn_after_a_round_that_warms_up() -> None:
    taken: list[str] = []
    seconds = time_steps(taken.append)
    assert taken == list(PRECISIONS) * 4
    assert min(seconds.values()) >= 0
