"""Batches of a search."""

import pytest

from fairseq_ext.serve.runtime.searches import _batches


@pytest.mark.parametrize(
    ("lengths", "domains", "expected"),
    [
        ([3, 9, 3, 9], None, [[1, 3], [0, 2]]),
        ([5, 50, 5, 5, 5, 5], None, [[1], [0, 2, 3, 4], [5]]),
        ([2] * 10, "0123456789", [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9]]),
        ([2] * 10, "0819273645", [[0, 2, 4, 6, 8, 9, 7, 5], [1, 3]]),
        ([2] * 10, "0000000001", [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]),
    ],
)
def test_batches_have_few_tokens_and_domains(
    lengths: list[int], domains: str | None, expected: list[list[int]]
) -> None:
    found = _batches(dict(enumerate(lengths)), 20, None if domains is None else dict(enumerate(domains)))
    assert list(found) == expected
