"""All models in other precisions: moved as a whole, and near the full-precision result."""

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from tests.models.every_model import SUBJECTS, Subject

MODELS = [name for name in SUBJECTS if "norm" not in name]


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return SUBJECTS[request.param](tmp_path_factory.mktemp("subject"))


@pytest.mark.parametrize("subject", MODELS, indirect=True)
def test_a_model_moves_as_a_whole(subject: Subject) -> None:
    """To another precision and, as after ``cuda()``, to another device; but for what fairseq itself moves when used."""
    model, dtype = subject.randomised(), torch.bfloat16
    model.make_generation_fast_()  # as fairseq's hub does before a user can move it
    with torch.no_grad():
        full, moved = subject.run(model, subject.inputs), subject.run(model.to(dtype), subject.inputs)
    assert {value.dtype for value in model.parameters()} == {dtype}
    # Half precision keeps two to three decimals; logits of random weights are of the order of ten.
    torch.testing.assert_close(moved.float(), full, atol=0.05 * float(full.abs().max()), rtol=0.1)
    model.to("meta")
    for name, module in model.named_modules():
        own = {key: value for key, value in vars(module).items() if key not in ("_future_mask", "weights")}
        assert all(value.is_meta for value in tree_leaves(own) if isinstance(value, Tensor)), name
