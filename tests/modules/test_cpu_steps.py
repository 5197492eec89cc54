from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fairseq_ext.modules import cpu_steps
from fairseq_ext.modules.cpu_steps import BFLOAT16, FLOAT32, PRECISIONS, StepMemory, computed_in, fastest, time_steps


def test_precisions_are_timed_in_turn_and_the_faster_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, taken = [0.0], []
    for name in ("perf_counter", "process_time"):
        monkeypatch.setattr(cpu_steps.time, name, lambda: clock[0])

    def run(precision: str) -> None:
        taken.append(precision)
        # The first of its runs is slow; then so much that time is up after three timed rounds.
        clock[0] += 0.5 if precision not in taken[:-1] else (0.1 if precision == BFLOAT16 else 0.2)

    seconds = time_steps(run)
    assert taken == list(PRECISIONS) * (len(taken) // 2)
    assert seconds == pytest.approx({FLOAT32: 0.2, BFLOAT16: 0.1})
    assert fastest(seconds) == BFLOAT16
    assert fastest({FLOAT32: 1.0, BFLOAT16: 0.98}) == FLOAT32  # not worth other numbers


def test_bfloat16_and_math_attention_are_switched_back() -> None:
    x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)

    def criterion() -> tuple[torch.Tensor, bool]:
        return F.linear(x, weight), torch.backends.cuda.flash_sdp_enabled()

    before = torch.backends.cuda.flash_sdp_enabled()
    out, has_flash = computed_in(BFLOAT16, criterion)()
    assert (out.dtype, has_flash) == (torch.bfloat16, False)
    out.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32
    assert (torch.backends.cuda.flash_sdp_enabled(), torch.is_autocast_enabled("cpu")) == (before, False)
    assert computed_in(FLOAT32, criterion) is criterion


@pytest.mark.parametrize(("kept", "chosen"), [("bfloat16, flash attention", BFLOAT16), ("another", None), (None, None)])
def test_what_earlier_versions_chose_is_kept(kept: str | None, chosen: str | None) -> None:
    memory = StepMemory()
    memory.resume_step({"cpu_step": kept})
    assert memory.chosen_step == chosen
