"""Numbers, addresses and markup that translations keep, and those they may change."""

import time

import pytest

from fairseq_ext.cleaning.agreement import Agreement, numbers
from fairseq_ext.cleaning.markup import addresses, elements, placeholders
from tests.cleaning import judging


def judge(criterion: Agreement, source: str, target: str) -> str | None:
    return judging.judge(criterion, (source, target))[0]


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


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("June 23, 2016", "23 czerwca 2016 r.", None),
        ("$10,000.50", "10 000,50 $", None),
        ("18th century, 100 percent, 2,000 books", "osiemnasty wiek, sto procent, dwa tysiące książek", None),
        ("In 1638.", "Wtedy.", "numbers only in the source: 1638"),
        ("at 6:30 p.m.", "o 18:30", None),
        ("Article 12", "Artykuł 15", "numbers only in the source: 12, only in the target: 15"),
        ("1 2 3", "1 4 5", "numbers only in the source: 2 3, only in the target: 4 5"),
    ],
)
def test_agreement_on_numbers(source: str, target: str, reason: str | None) -> None:
    assert judge(Agreement(), source, target) == reason


def test_number_options() -> None:
    assert judge(Agreement(min_share=0.51), "1 2", "1 3") is not None
    assert judge(Agreement(min_share=0.33), "1 2 3", "1 4 5") is None
    assert judge(Agreement(numbers=False), "1638", "1683") is None
    assert Agreement(**{"written_out": False}) == Agreement()  # of earlier versions


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("See https://a.org/b.", "Zob. (https://a.org/b)", None),
        ("Write to A.B@c.org", "Pisz: a.b@c.org!", None),
        ("See https://en.a.org/en/b", "Zob. https://a.org/pl/b/", None),
        ("such as “https://”", "np. „https://”", None),
        ("See https://a.org/b for it", "https://a.org/bを見る", None),
        ("See https://a.org", "Zob. strona", "addresses only in the source: https://a.org"),
    ],
)
def test_agreement_on_addresses(source: str, target: str, reason: str | None) -> None:
    assert judge(Agreement(), source, target) == reason
    assert judge(Agreement(urls=False), source, target) is None


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("<b>Add</b> <i>x</i>", "<i>x</i> <B>Dodaj</B>", None),
        ("<b>Add</b>", "Dodaj", "tags only in the source: /b"),
        ("&lt;b&gt;Add&lt;/b&gt;", "Dodaj", "tags only in the source: /b"),
        ('<a href="x">y</a>', "<a href='x' title=\"z\">y</a>", None),
        ("file <name> or <br>", "plik <nazwa>", None),
        ("%s of %s", "%2$s w %1$s", None),
        ("%1$s of %2$s", "%1$s", "placeholders only in the source: %2$s"),
        ("%(n)s files", "pliki", "placeholders only in the source: %(n)s"),
        ("{0} and ${a_b}", "{0} i {1}", "placeholders only in the source: ${a_b}, only in the target: {1}"),
        ("echo $HOME", "echo", "placeholders only in the source: $HOME"),
        ("100%sure, 50%", "100% pewne, 50%", None),
        ("e to the i", r"e^{x} \sqrt{x} $x$", None),
    ],
)
def test_agreement_on_markup(source: str, target: str, reason: str | None) -> None:
    assert judge(Agreement(), source, target) == reason
    assert judge(Agreement(markup=False), source, target) is None


def test_pairs_with_an_endless_side_pass() -> None:
    # Finding groups of thousands takes quadratic time on the last of these.
    for size, reason in ((10_000, "numbers only in the source: 1638"), (10_001, None)):
        text = "1638" + "a" * (size - 4)
        assert judge(Agreement(), text, "x") == reason
        assert judge(Agreement(), "x", text) == (reason and reason.replace("source", "target"))
    assert judge(Agreement(), "111 " * 250_000 + "4444", "x") is None


@pytest.mark.parametrize(
    "unit", ["<a", "<a =", '="', "%0", "%(a", "{a", "a.", "a@", "1,", "1 000 ", "$a", "www.", "&lt;"]
)
def test_time_is_linear_in_the_length(unit: str) -> None:
    start = time.process_time()
    for text in (unit * 50_000, unit[0] + unit[-1] * 100_000):
        for find in (numbers, elements, placeholders):
            find(text)
        addresses(text, {"en", "pl"})
    assert time.process_time() - start < 20  # where it is quadratic, minutes
