"""A value that each thread has for itself, while a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadValue(local, Generic[T]):
    """What hooks have to know of the current call, so that several threads can decode with one model.

    Attributes:
        value: this thread's, None outside of :meth:`during`.
    """

    value: T | None = None

    @contextmanager
    def during(self, value: T) -> Iterator[T]:
        """Set this thread's value until the block ends."""
        before, self.value = self.value, value
        try:
            yield value
        finally:
            self.value = before
