"""What one task adds, and how an encoder's norms follow the switch."""

import pytest
import torch
from torch import nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.task_parameters import (
    TaskDescription,
    TaskParameters,
    TaskSwitch,
    check_task_name,
    switch_norms,
)
from fairseq_ext.modules.tunings import TUNINGS

LABELS = ["a", "b b", "ć"]


def make(tuning: str = "adapters", width: int = 8, **sizes: int) -> TaskParameters:
    counts = {"num_layers": 3, "num_norms": 7, "bottleneck_dim": 4} | sizes
    return TaskParameters(TaskDescription(LABELS, tuning, "gelu"), width, **counts)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_what_is_tuned_decides_what_there_is() -> None:
    tasks = [make(tuning) for tuning in TUNINGS]
    assert [(len(task.adapters), len(task.norms)) for task in tasks] == [(6, 7), (0, 7), (0, 0), (0, 0)]
    assert all(task.labels == LABELS for task in tasks)


def test_description_survives_and_damage_is_refused() -> None:
    description = TaskDescription(LABELS, "norms", "relu")
    assert TaskDescription.from_entry(description.to_entry(), "x") == description
    wrong = [b"", b"[]", b'{"labels": [1], "tuning": "norms", "activation_fn": "relu"}', b"\xff\xfe", b'{"labels": []}',
             b'{"labels": [], "tuning": "all", "activation_fn": "relu"}', b"null",
             b'{"labels": [], "tuning": "norms", "activation_fn": "os.system"}']  # fmt: skip
    for damaged in [None, torch.zeros(3, 2), *(torch.tensor(list(w), dtype=torch.uint8) for w in wrong)]:
        with pytest.raises(InputError, match="^here: does not describe a task"):
            TaskDescription.from_entry(damaged, "here")


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(6)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.Sequential(self.first, *self.layers)(x)


def test_norms_follow_the_switch() -> None:
    encoder, switch, x = Encoder(), TaskSwitch(), torch.randn(5, 6)
    keys, alone = list(encoder.state_dict()), encoder(x)
    assert switch_norms(encoder, switch) == ["first", "layers.0.1", "layers.1.1"]
    assert list(encoder.state_dict()) == keys
    assert torch.equal(encoder(x), alone)
    task = make(width=6, num_norms=3)
    for position, norm in enumerate(task.norms):
        nn.init.constant_(norm.weight, 2.0 + position)
    switch.task = task
    expected = encoder.layers[0][0](nn.functional.layer_norm(x, (6,)) * 2)
    expected = encoder.layers[1][0](nn.functional.layer_norm(expected, (6,)) * 3)
    expected = nn.functional.layer_norm(expected, (6,)) * 4
    torch.testing.assert_close(encoder(x), expected)
    switch.task = make("full", width=6)
    assert torch.equal(encoder(x), alone)


def test_switch_finds_the_adapters_of_a_layer() -> None:
    switch = TaskSwitch()
    assert list(switch.adapters(0)) == []
    switch.task = make()
    adapters = list(switch.task.adapters)
    assert list(switch.adapters(0)) == adapters[:2]
    assert list(switch.adapters(2)) == adapters[4:]


def test_names_of_tasks() -> None:
    for name in ("sst2", "MNLI_m", "cola-1"):
        check_task_name(name)
    for name in ("", "a.b", "a b", "../x", "keys", "train", "ć", "--"):
        with pytest.raises(InputError, match="cannot name a task"):
            check_task_name(name)
