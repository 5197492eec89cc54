import pytest
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_names import names_entry, read_names

SOME = ["root", "söhne", "law"]


def test_names_survive() -> None:
    assert read_names(names_entry(SOME)) == SOME
    assert read_names(names_entry(SOME).to(torch.uint8)) == SOME  # of an earlier version


@pytest.mark.parametrize("damaged", [torch.tensor([1.0, 2.0, 255.0]), names_entry(SOME) + 300, torch.ones(1) / 0])
def test_damaged_names_are_refused(damaged: Tensor) -> None:
    with pytest.raises(InputError, match="adapter_names"):
        read_names(damaged)
