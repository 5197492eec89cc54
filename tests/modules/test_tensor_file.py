"""Tensor files: content, and permissions like those of other files."""

import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from fairseq_ext.modules.tensor_file import write_tensors


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_file_has_the_usual_permissions(tmp_path: Path, mask: int) -> None:
    values = torch.arange(6.0).view(2, 3).t()
    before = os.umask(mask)
    try:
        write_tensors(tmp_path / "a.safetensors", {"a": values}, {"kind": "test"})
        (tmp_path / "other").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode
    with safe_open(str(tmp_path / "a.safetensors"), "pt") as file:
        assert torch.equal(file.get_tensor("a"), values)
        assert file.metadata() == {"kind": "test"}
