"""ARPA files: probabilities by hand, what is written is what is read, and what is none is refused by its line."""

import math
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.arpa import ArpaModel

# log10 of probabilities and of back-off weights, blanks being tabs.
ARPA = """\
\\data\\
ngram 1=5
ngram 2=2

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.25
-1.0\t</s>
-0.5\ta\t-0.125
-0.75\tb

\\2-grams:
-0.25\t<s> a
-0.375\ta b

\\end\\
"""


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def scores(path: Path, *texts: str) -> list[float]:
    return (ArpaModel.read(path).score(texts) / math.log(10)).tolist()


def test_the_longest_ngram_counts_and_weights_of_longer_contexts(arpa: Path) -> None:
    found = scores(arpa, "a b", "b", "", "a oov", "oov oov a b", " a\tb ")
    known = [-0.25 - 0.375 - 1, -0.25 - 0.75 - 1, -0.25 - 1, -0.25 - 0.125 - 1.5 - 1, -0.25 - 3 - 0.5 - 0.375 - 1]
    assert found == pytest.approx([*known, known[0]])
    # Without a word for unknown ones, they cost a hundred orders of magnitude.
    arpa.write_text(ARPA.replace("-1.5\t<unk>\n", "").replace("ngram 1=5", "ngram 1=4"), encoding="utf-8")
    assert scores(arpa, "oov") == pytest.approx([-0.25 - 100 - 1])


def test_what_is_written_is_what_was_read(arpa: Path, tmp_path: Path) -> None:
    model = ArpaModel.read(arpa)
    model.write(tmp_path / "again.arpa")
    again = ArpaModel.read(tmp_path / "again.arpa")
    assert again.numbers == model.numbers
    np.testing.assert_equal(list(map(vars, again.tables)), list(map(vars, model.tables)))


def test_blanks_for_tabs_any_order_and_carriage_returns_are_read_as_well(arpa: Path) -> None:
    expected = scores(arpa, "a b", "b a")
    swapped = ARPA.replace("-0.25\t<s> a\n-0.375\ta b", "-0.375\ta b\n-0.25\t<s> a")
    for text in (ARPA.replace("\t", " "), ARPA.replace("\n", "\r\n"), "made by hand\n\n" + ARPA, swapped):
        arpa.write_bytes(text.encode())
        assert scores(arpa, "a b", "b a") == expected


LONGER = ARPA.replace("ngram 2=2", "ngram 2=2\nngram 3=1").replace("\\end\\", "\\3-grams:\n-1\tb a b\n\n\\end\\")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (ARPA, "hello\n", ""),
        ("-0.375\ta b", "nan\ta b", ", line 14"),
        ("-0.5\ta\t-0.125", "-0.5\ta\tinf", ", line 9"),
        ("-0.375\ta b", "-0.375\t<s> a", ""),
        ("\\end\\\n", "", ""),
        ("</s>", "end", ""),
        (ARPA[ARPA.index("-0.25\t<s>") :], "", ""),
        (ARPA, LONGER, ""),
        ("\\2-grams:", "\\3-grams:", ", line 12"),
    ],
)
def test_damage_is_named_by_its_line(arpa: Path, old: str, new: str, place: str) -> None:
    arpa.write_text(ARPA.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=f"^{arpa}{place}: "):
        ArpaModel.read(arpa)
