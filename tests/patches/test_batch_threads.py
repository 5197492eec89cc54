"""Programs that leave fairseq's batches unfinished; without the patch, three of four abort as they end."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from fairseq.data.iterators import BufferedIterator

import fairseq_ext.registration  # noqa: F401
from fairseq_ext.patches import training


class Batches:
    def __len__(self) -> int:
        return 100_000

    def __iter__(self) -> itertools.count:
        return itertools.count()


def test_threads_that_make_batches_end_before_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(training.atexit, "register", at_exit.append)
    batches = BufferedIterator(10, Batches())
    assert [next(batches) for _ in range(20)] == list(range(20))
    assert batches._consumer.is_alive()
    at_exit[-1]()
    assert not batches._consumer.is_alive()
