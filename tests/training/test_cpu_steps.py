from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fairseq_ext.training import cpu_steps
from fairseq_ext.training.cpu_steps import FLOAT32, IS_QUICK, STEPS, CpuStep, fastest, time_steps


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({FLOAT32: 1.0, "bfloat16": 0.6, "float32, quick": 0.7}, "bfloat16"),
        ({FLOAT32: 1.0, "bfloat16": 1.4, "float32, quick": 0.7}, "float32, quick"),
        ({FLOAT32: 1.0, "bfloat16": 0.98, "float32, quick": 1.1}, FLOAT32),  # not worth other numbers
        ({FLOAT32: 0.3, "bfloat16": 0.221, "bfloat16, flash attention": 0.215}, "bfloat16"),  # by chance
        ({FLOAT32: 0.3, "bfloat16": 0.22, "bfloat16, flash attention": 0.2}, "bfloat16, flash attention"),
    ],
)
def test_the_fastest_way_is_chosen(seconds: dict[str, float], chosen: str) -> None:
    assert fastest(seconds) == chosen


def test_ways_are_timed_in_turn_and_the_least_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, taken = [0.0], []
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(cpu_steps.time, name, lambda: clock[0])

    def run(step: CpuStep) -> None:
        taken.append(step)
        # The first of its runs is slow; then so much that time is up after three timed rounds.
        clock[0] += 0.5 if step not in taken[:-1] else (0.1 if step.bfloat16 else 0.2)

    seconds = time_steps(run)
    assert taken[: len(STEPS)] == list(STEPS.values())
    assert taken == taken[: len(STEPS)] * (len(taken) // len(STEPS))
    assert seconds == pytest.approx({name: 0.1 if step.bfloat16 else 0.2 for name, step in STEPS.items()})


def test_a_step_in_bfloat16_is_so_inside_alone() -> None:
    x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)

    def criterion() -> tuple[torch.Tensor, bool | None]:
        return F.linear(x, weight), IS_QUICK.value

    out, is_quick = STEPS["bfloat16"].around(criterion)()
    assert (out.dtype, is_quick) == (torch.bfloat16, True)
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
    assert (IS_QUICK.value, torch.is_autocast_enabled("cpu")) == (None, False)
    assert STEPS[FLOAT32].around(criterion) is criterion


def test_math_attention_is_switched_back() -> None:
    before = torch.backends.cuda.flash_sdp_enabled()
    assert STEPS["bfloat16"].around(torch.backends.cuda.flash_sdp_enabled)() is False
    assert torch.backends.cuda.flash_sdp_enabled() == before
