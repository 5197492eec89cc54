from __future__ import annotations

import pytest
import torch

from fairseq_ext.patches.loading import leave_compilers_out


def test_a_condition_that_fails_is_told_as_before() -> None:
    leave_compilers_out()
    torch._check(True, lambda: "never")
    with pytest.raises(RuntimeError, match="^two is not three$"):
        torch._check(2 == 3, lambda: "two is not three")
    with pytest.raises(TypeError):
        torch._check(torch.tensor(True))


def test_an_optimiser_works() -> None:
    leave_compilers_out()
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.5)
    weight.sum().backward()
    optimiser.step()
    optimiser.zero_grad()
    assert weight.tolist() == [0.5, 0.5]
    assert weight.grad is None
