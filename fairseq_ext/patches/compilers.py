"""torch trains and decodes without its compiler, which takes as long to load as torch itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


def leave_compilers_out() -> None:
    """Let torch load neither its compiler nor the symbolic algebra behind that where nothing is compiled.

    It would load the one to keep it away from methods of optimisers, with the first optimiser; and the other to check
    a condition that may be symbolic, with the first attention. Where a compiler is at work, neither changes anything:
    these methods are not compiled, and a symbolic condition is checked as before.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(Optimizer, name)
        setattr(Optimizer, name, getattr(method, "__wrapped__", method))
    if not hasattr(torch._check_with, "__wrapped__"):
        torch._check_with = _checking_what_does_not_hold(torch._check_with)


def _checking_what_does_not_hold(check_with: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(check_with)
    def check(error_type: Any, cond: Any, message: Any) -> None:
        if cond is not True:
            check_with(error_type, cond, message)

    return check
