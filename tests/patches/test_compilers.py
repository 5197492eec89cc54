from __future__ import annotations

import pytest
import torch

from fairseq_ext.patches.loading import leave_compilers_out


def test_a_condition_that_fails_is_told_as_before() -> None:
    leave_compilers_out()
    torch._check(True, lambda: "never")
    with pytest.raises(RuntimeError, match="^two is not three$"):
        torch._check(2 == 3, lambda: "two is not three")
    with pytest.raises(ValueError, match="^told$"):
        torch._check_with(ValueError, False, lambda: "told")
    with pytest.raises(TypeError, match="cond must be a bool"):
        torch._check(torch.tensor(True))


def test_an_optimiser_works_and_is_restored() -> None:
    leave_compilers_out()
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    weight.sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    assert weight.tolist() == [0.5, 0.5]
    assert weight.grad is None
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    other.load_state_dict(optimiser.state_dict())
    assert other.param_groups[0]["lr"] == 0.5
    assert torch.equal(other.state[other.param_groups[0]["params"][0]]["momentum_buffer"], torch.ones(2))


@pytest.mark.slow
def test_what_is_compiled_checks_sizes_that_it_does_not_know() -> None:
    leave_compilers_out()

    @torch.compile(backend="eager", dynamic=True)
    def halve(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] % 2 == 0, lambda: "odd")
        return x[: x.shape[0] // 2]

    assert len(halve(torch.ones(4))) == 2
    assert len(halve(torch.ones(6))) == 3
    with pytest.raises(Exception, match="odd"):
        halve(torch.ones(5))


def test_it_is_done_once() -> None:
    leave_compilers_out()
    before = torch._check_with, torch.optim.Optimizer.zero_grad
    leave_compilers_out()
    assert (torch._check_with, torch.optim.Optimizer.zero_grad) == before
