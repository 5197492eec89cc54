"""Means of several processes' tensors, beside those that torch sends around."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, distributed

from fairseq_ext.training.shared_means import SharedMeans, shared_file

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory without a file is Linux's")


def tensors(rank: int, scale: int) -> list[Tensor]:
    torch.manual_seed(rank)
    shapes = [(3,), (4 * scale, 5), (), (2, 3, 2), (1,)]
    made = [torch.randn(shape) for shape in shapes]
    return [*made, torch.randn(6, 4).t()]  # whose numbers do not lie in order


def run(rank: int, count: int, file: int, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=count)
    means = SharedMeans(file, rank, count, distributed.barrier)
    found = []
    for scale in (1, 7, 2):  # memory grows, and is not cut again
        own = tensors(rank, scale)
        sent = [tensor.clone() / count for tensor in own]
        for tensor in sent:
            distributed.all_reduce(tensor)
        means.take(own)
        distributed.barrier()
        found.append((own, sent))
    torch.save(found, folder / f"{rank}.pt")


@pytest.mark.parametrize("count", [2, 3])
def test_means_are_those_that_are_sent_and_the_same_everywhere(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    file = shared_file()
    assert file is not None
    torch.multiprocessing.start_processes(run, (count, file, tmp_path), count, start_method="fork")
    results = [torch.load(tmp_path / f"{rank}.pt") for rank in range(count)]
    for own, sent in results[0]:
        for mean, other in zip(own, sent, strict=True):
            torch.testing.assert_close(mean, other)
            assert count > 2 or torch.equal(mean, other)  # of two, there is one order to add in
    for others in results[1:]:
        for (first, _), (own, _) in zip(results[0], others, strict=True):
            assert all(map(torch.equal, first, own))


def test_one_process_keeps_what_it_has() -> None:
    file = shared_file()
    assert file is not None
    own = tensors(1, 2)
    SharedMeans(file, 0, 1, lambda: None).take(own)
    assert all(map(torch.equal, own, tensors(1, 2)))


def test_where_there_is_no_such_file_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    assert shared_file() is None
    monkeypatch.delattr(os, "memfd_create")
    assert shared_file() is None
