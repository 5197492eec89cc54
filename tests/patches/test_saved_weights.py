"""Damaged or made-up weights and sizes end in one line, soon."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.patches.checkpoints import check_checkpoint
from tests.patches import hostile

NAME = "encoder.layers.0.fc1.weight"


@pytest.fixture(scope="module")
def good(data: Path) -> hostile.State:
    return hostile.make_good(data)


def with_weight(change: Callable[[Tensor], Any]) -> Callable[[hostile.State], hostile.State]:
    return lambda state: {**state, "model": {**state["model"], NAME: change(state["model"][NAME].clone())}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_weight(lambda weight: weight.fill_(float("nan"))), f"'{NAME}' has entries that are not finite"),
        (with_weight(lambda weight: {"a": weight}), f"'{NAME}' is dict, expected a tensor"),
        (with_weight(lambda weight: weight.to_sparse()), "plain tensor|sparse"),
        (with_weight(lambda weight: torch.zeros(1).expand(10**14)), f"'{NAME}' declares 1000000*0 numbers"),
        (hostile.replaced(model=[1, 2]), "not a fairseq checkpoint"),
        (hostile.replaced(cfg=7), "its entry 'cfg' is int, expected options"),
    ],
)
def test_refused_in_one_line(change: Callable, message: str, good: hostile.State, tmp_path: Path) -> None:
    torch.save(change(copy.deepcopy(good)), tmp_path / "odd.pt")
    with pytest.raises(InputError, match=rf"odd\.pt: .*({message})") as caught:
        check_checkpoint(tmp_path / "odd.pt")
    assert "\n" not in str(caught.value)


def test_other_precisions_counters_and_bytes_are_fine(good: hostile.State, tmp_path: Path) -> None:
    weights = {name: value.bfloat16() for name, value in good["model"].items()}
    more = {"steps": torch.tensor(3), "names": torch.tensor([104, 105], dtype=torch.uint8)}
    torch.save({**good, "model": {**weights, **more}}, tmp_path / "model.pt")
    check_checkpoint(tmp_path / "model.pt")


def test_options_of_wrong_kinds_end_in_one_line(good: hostile.State, data: Path, tmp_path: Path) -> None:
    from fairseq import checkpoint_utils

    change = hostile.with_config(model={"encoder_attention_heads": "many"})
    torch.save(change(copy.deepcopy(good)), tmp_path / "odd.pt")
    with pytest.raises(InputError, match=r"odd\.pt: cannot build a model from it: \w+Error: ") as caught:
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "odd.pt")], {"data": str(data)})
    assert caught.value.__cause__ is not None
