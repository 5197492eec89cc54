"""The weights of a checkpoint: tensors by name, of finite numbers, no larger than they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError

# Names of entries that are computed with; others, say a record of names as bytes, may be of whole numbers.
_COMPUTED = ("weight", "bias")
# What a module keeps beside its tensors (torch's `get_extra_state`): plain data, which the module itself checks.
_EXTRA_STATE = "_extra_state"


def check_weights(weights: Mapping[Any, Any]) -> None:
    """Check that nothing stands where weights belong but weights.

    Raises:
        InputError: naming the first entry that is no tensor, is larger than its content, is not of the right kind of
            numbers, or holds one that is infinite or none.
    """
    for name, value in weights.items():
        if isinstance(name, str) and name.rpartition(".")[2] == _EXTRA_STATE:
            continue
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(f"the entry {name!r} of its weights is {type(value).__name__}, expected a tensor")
        if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
            raise InputError(f"the weight {name!r} is no plain tensor ({value.layout}, {value.dtype})")
        # A stride of zero lets one number stand for any amount of them.
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise InputError(f"the weight {name!r} claims to have {value.numel()} numbers, but fewer are there")
        if name.endswith(_COMPUTED) and not value.is_floating_point():
            raise InputError(f"the weight {name!r} is of {value.dtype}, expected numbers with a fraction")
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise InputError(f"the weight {name!r} has entries that are not finite; the training diverged")
