"""Numbers, addresses and markup that translations keep, and those they may change."""

import pytest

from fairseq_ext.cleaning.agreement import Agreement, numbers
from tests.cleaning.judging import judge


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234,567.89 or 1.234.567,89", {"1234567", "89"}),
        ("12/31/2020 31.12.2020", {"12", "31", "2020"}),
        ("05:00, 007", {"5", "0", "7"}),
        ("٣٤ and ३४", {"34"}),
        ("%1$s of %2$d, {0}, %5.2f, MP3", {"3"}),
        ("x² ½", set()),
    ],
)
def test_numbers(text: str, expected: set[str]) -> None:
    assert numbers(text) == expected


def test_pairs_with_an_endless_side_pass() -> None:
    # Finding groups of thousands takes quadratic time on the last of these.
    for size, reason in ((10_000, "numbers only in the source: 1638"), (10_001, None)):
        text = "1638" + "a" * (size - 4)
        assert judge(Agreement(), (text, "x"), ("x", text)) == [reason, reason and reason.replace("source", "target")]
