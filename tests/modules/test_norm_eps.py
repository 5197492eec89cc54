"""The epsilon goes with the weights, whatever precision they are in."""

import pytest
import torch
from torch import nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.bert import ENTRY, set_norm_eps, take_norm_eps
from fairseq_ext.modules.text_entry import text_entry


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_it_is_taken_from_a_state_dict(dtype: torch.dtype) -> None:
    one, other = (nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(2))
    set_norm_eps(one, 1e-12)
    state = {f"encoder.{name}": value.to(dtype) for name, value in one.state_dict().items()}
    take_norm_eps(other, state, "encoder.")
    assert other[1].eps == 1e-12
    assert torch.equal(other.get_buffer(ENTRY), one.get_buffer(ENTRY))


@pytest.mark.parametrize("text", ["", "one", "-1", "nan", "3"])
def test_other_entries_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"encoder\.layer_norm_eps is no epsilon"):
        take_norm_eps(nn.Sequential(nn.LayerNorm(2)), {"encoder.layer_norm_eps": text_entry(text)}, "encoder.")
