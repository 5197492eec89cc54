from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_names import NAMES, names_entry, read_names
from tests import toy

SOME = ["root", "söhne", "law"]


def test_names_survive() -> None:
    assert read_names(names_entry(SOME)) == SOME
    assert read_names(names_entry(SOME).to(torch.uint8)) == SOME  # of an earlier version


@pytest.mark.parametrize("damaged", [torch.tensor([1.0, 2.0, 255.0]), names_entry(SOME) + 300, torch.ones(1) / 0])
def test_damaged_names_are_refused(damaged: Tensor) -> None:
    with pytest.raises(InputError, match="adapter_names"):
        read_names(damaged)


def test_names_are_a_buffer(data: Path) -> None:
    """They move with the model and are no parameter."""
    model: nn.Module = toy.make_model(*toy.make_task(data))
    assert NAMES in dict(model.named_buffers())
    assert NAMES not in dict(model.named_parameters())
