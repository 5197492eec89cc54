"""Means over the processes of one machine, in memory that they share, which is faster than sending what they have."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

DTYPE = torch.float32  # of what means are taken


def shared_file() -> int | None:
    """An open file without a name or a place, for processes that are forked from this one; None where there is none."""
    try:
        return os.memfd_create("means") if hasattr(os, "memfd_create") else None
    except OSError:  # some containers forbid it
        return None


class SharedMeans:
    """The means of tensors that each of several processes has its own values of.

    Each writes its values, divided by the number of processes, into a row of its own, adds up its share of all rows,
    and reads the sums, in the order of the processes: two get the bits that they would get by sending.

    Args:
        file: :func:`shared_file` of their parent.
        rank: this process's number.
        count: how many they are.
        meet: returns when all of them have called it.
    """

    def __init__(self, file: int, rank: int, count: int, meet: Callable[[], object]):
        self._file = file
        self._rank = rank
        self._count = count
        self._meet = meet
        self._rows = torch.empty(count, 0)

    def take(self, tensors: Sequence[Tensor]) -> None:
        """Put the means in the place of the values; every process calls it with tensors of the same sizes.

        Nobody may call it again before all have returned, which another meeting makes sure of.
        """
        size = sum(tensor.numel() for tensor in tensors)
        self._reserve(size)
        for tensor, part in zip(tensors, self._parts(self._rank, tensors), strict=True):
            torch.div(tensor, self._count, out=part)
        self._meet()
        share = slice(self._rank * size // self._count, (self._rank + 1) * size // self._count)
        total = self._rows[0, share]
        for row in self._rows[1:]:
            total += row[share]
        self._meet()
        for tensor, part in zip(tensors, self._parts(0, tensors), strict=True):
            tensor.copy_(part)

    def _parts(self, number: int, tensors: Sequence[Tensor]) -> list[Tensor]:
        """A row, cut like the tensors."""
        sizes = [tensor.numel() for tensor in tensors]
        parts = self._rows[number, : sum(sizes)].split(sizes)
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _reserve(self, size: int) -> None:
        if size <= self._rows.size(1):
            return
        length = self._count * size * DTYPE.itemsize
        os.ftruncate(self._file, length)  # by all of them, to the same length
        self._rows = torch.frombuffer(mmap.mmap(self._file, length), dtype=DTYPE).view(self._count, size)
