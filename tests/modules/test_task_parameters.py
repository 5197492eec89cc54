"""A task's description and name, and a single adapter."""

import math

import pytest
import torch
from torch import nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.task_parameters import HoulsbyAdapter, TaskDescription, check_task_name

H, B = 12, 5


def test_description_survives_and_damage_is_refused() -> None:
    description = TaskDescription(["a", "b b", "ć"], "norms", "relu")
    assert TaskDescription.from_entry(description.to_entry(), "x") == description
    wrong = [b"", b"[]", b'{"labels": [1], "tuning": "norms", "activation_fn": "relu"}', b"\xff\xfe", b'{"labels": []}',
             b'{"labels": [], "tuning": "all", "activation_fn": "relu"}', b"null",
             b'{"labels": [], "tuning": "norms", "activation_fn": "os.system"}']  # fmt: skip
    for damaged in [None, torch.zeros(3, 2), *(torch.tensor(list(w), dtype=torch.uint8) for w in wrong)]:
        with pytest.raises(InputError, match="^here: "):
            TaskDescription.from_entry(damaged, "here")


def test_names_of_tasks() -> None:
    for name in ("sst2", "MNLI_m", "cola-1"):
        check_task_name(name)
    for name in ("", "a.b", "../x", "keys", "train", "ć"):
        with pytest.raises(InputError, match="--classification-head-name: "):
            check_task_name(name)


def test_is_a_bottleneck_with_a_skip_connection() -> None:
    torch.manual_seed(1)
    adapter, x = HoulsbyAdapter(H, B), torch.randn(7, 2, H)
    for parameter in adapter.parameters():
        nn.init.normal_(parameter)
    inner = x @ adapter.down.weight.t() + adapter.down.bias
    gelu = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    expected = x + gelu @ adapter.up.weight.t() + adapter.up.bias
    torch.testing.assert_close(adapter(x), expected)


def test_starts_from_a_truncated_normal() -> None:
    torch.manual_seed(1)
    scale = 1e-2
    adapter = HoulsbyAdapter(300, 200, scale)
    for projection in (adapter.down, adapter.up):
        assert projection.weight.abs().max() <= 2 * scale
        # A normal distribution cut at two standard deviations has 0.88 of its spread left.
        assert projection.weight.std().item() == pytest.approx(0.8796 * scale, rel=0.02)
        assert not projection.bias.any()
