"""What one task adds, its adapters, and how an encoder's norms follow the switch."""

import math

import pytest
import torch
from torch import nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.task_parameters import (
    HoulsbyAdapter,
    TaskDescription,
    TaskParameters,
    TaskSwitch,
    check_task_name,
    switch_norms,
)
from fairseq_ext.modules.tunings import TUNINGS

LABELS = ["a", "b b", "ć"]
H, B = 12, 5


def make(tuning: str = "adapters") -> TaskParameters:
    return TaskParameters(TaskDescription(LABELS, tuning, "gelu"), 6, num_layers=3, num_norms=3, bottleneck_dim=4)


def test_what_is_tuned_decides_what_there_is() -> None:
    tasks = [make(tuning) for tuning in TUNINGS]
    assert [(len(task.adapters), len(task.norms)) for task in tasks] == [(6, 3), (0, 3), (0, 0), (0, 0)]
    assert all(task.labels == LABELS for task in tasks)
    switch = TaskSwitch()
    assert list(switch.adapters(0)) == []
    switch.task = tasks[0]
    assert list(switch.adapters(2)) == list(tasks[0].adapters)[4:]


def test_description_survives_and_damage_is_refused() -> None:
    description = TaskDescription(LABELS, "norms", "relu")
    assert TaskDescription.from_entry(description.to_entry(), "x") == description
    wrong = [b"", b"[]", b'{"labels": [1], "tuning": "norms", "activation_fn": "relu"}', b"\xff\xfe", b'{"labels": []}',
             b'{"labels": [], "tuning": "all", "activation_fn": "relu"}', b"null",
             b'{"labels": [], "tuning": "norms", "activation_fn": "os.system"}']  # fmt: skip
    for damaged in [None, torch.zeros(3, 2), *(torch.tensor(list(w), dtype=torch.uint8) for w in wrong)]:
        with pytest.raises(InputError, match="^here: "):
            TaskDescription.from_entry(damaged, "here")


def test_norms_follow_the_switch() -> None:
    encoder = nn.Sequential(*(each for _ in range(3) for each in (nn.LayerNorm(6), nn.Linear(6, 6))))
    switch, x = TaskSwitch(), torch.randn(5, 6)
    keys, alone = list(encoder.state_dict()), encoder(x)
    assert switch_norms(encoder, switch) == ["0", "2", "4"]
    assert list(encoder.state_dict()) == keys
    assert torch.equal(encoder(x), alone)
    switch.task, expected = make(), x
    for position, norm in enumerate(switch.task.norms):
        nn.init.constant_(norm.weight, 2.0 + position)
        expected = encoder[2 * position + 1](nn.functional.layer_norm(expected, (6,)) * (2 + position))
    torch.testing.assert_close(encoder(x), expected)
    switch.task = make("full")
    assert torch.equal(encoder(x), alone)


def test_names_of_tasks() -> None:
    for name in ("sst2", "MNLI_m", "cola-1"):
        check_task_name(name)
    for name in ("", "a.b", "../x", "keys", "train", "ć"):
        with pytest.raises(InputError, match="--classification-head-name: "):
            check_task_name(name)


# A single adapter


def test_is_a_bottleneck_with_a_skip_connection() -> None:
    torch.manual_seed(1)
    adapter, x = HoulsbyAdapter(H, B), torch.randn(7, 2, H)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    inner = x @ adapter.down.weight.t() + adapter.down.bias
    gelu = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    expected = x + gelu @ adapter.up.weight.t() + adapter.up.bias
    torch.testing.assert_close(adapter(x), expected)


@pytest.mark.parametrize("scale", [1e-7, 1e-2, 1.0])
def test_starts_from_a_truncated_normal(scale: float) -> None:
    torch.manual_seed(1)
    adapter = HoulsbyAdapter(300, 200, scale)
    for projection in (adapter.down, adapter.up):
        assert projection.weight.abs().max() <= 2 * scale
        # A normal distribution cut at two standard deviations has 0.88 of its spread left.
        assert projection.weight.std().item() == pytest.approx(0.8796 * scale, rel=0.02)
        assert not projection.bias.any()
