"""Every filter just within and just outside its limits."""

import random
from typing import Any

import numpy as np
import pytest

from fairseq_ext.corpora.text_files import Pair, collapse, read_parallel
from fairseq_ext.filtering.agreement import Agreement
from fairseq_ext.filtering.batch import Batch, Reasons
from fairseq_ext.filtering.filters import Characters, Empty, Identical, Length, LengthRatio, LongWord
from fairseq_ext.inputs.errors import InputError
from tests.real_corpora import corpus

FILTERS = [Empty, Length, LengthRatio, LongWord, Characters, Identical, Agreement]


def judge(criterion: Any, *pairs: tuple[str, str], langs: tuple[str, str] = ("en", "pl")) -> Reasons:
    return criterion.reasons(Batch([Pair(*pair) for pair in pairs], langs))


def words(count: int) -> str:
    return " ".join(["word"] * count)


def test_empty() -> None:
    assert judge(Empty(), ("a", "b"), ("", "b"), ("a", "")) == [None, "no source text", "no target text"]
    invisible = "\u200b \ufeff\u00ad\u2060"
    expected = ["no source text", "no target text", "no source text", None]
    assert judge(Empty(), (invisible, "b"), ("a", invisible), ("", invisible), (f"{invisible}.", "b")) == expected


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((words(2), words(5)), None),
        ((words(1), words(5)), "1 source words"),
        ((words(2), words(6)), "6 target words"),
        (("", words(5)), "0 source words"),
        (("a " + "b" * 28, "a b"), None),
        (("a b", "a " + "b" * 29), "31 target characters"),
    ],
)
def test_length(pair: tuple[str, str], reason: str | None) -> None:
    assert judge(Length(min_words=2, max_words=5, max_characters=30), pair) == [reason]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ((words(2), words(6)), None),
        ((words(2), words(7)), "2 words to 7"),
        ((words(10), words(3)), "10 words to 3"),
        ((words(1), words(4)), None),
        ((words(1), words(5)), "1 words to 5"),
        (("", words(5)), "0 words to 5"),
        (("", words(4)), None),
    ],
)
def test_length_ratio_in_words(pair: tuple[str, str], reason: str | None) -> None:
    assert judge(LengthRatio(max_ratio=3, exempt=4), pair) == [reason]


def test_length_ratio_in_characters() -> None:
    criterion = LengthRatio(max_ratio=2.5, unit="characters", exempt=10)
    pairs = [("a" * 4, "b" * 10), ("a" * 10, "b" * 25), ("a" * 26, "b" * 10)]
    assert judge(criterion, *pairs, langs=("zh", "ja")) == [None, None, "26 characters to 10"]


def test_words_need_spaces() -> None:
    with pytest.raises(InputError, match="length_ratio: unit: zh_CN has no spaces between words; give unit: char"):
        judge(LengthRatio(), langs=("en", "zh_CN"))


def test_long_words() -> None:
    pairs = [("a" * 10, "b " + "c" * 9), ("a", "b " + "c" * 11 + " " + "d" * 12), ("e" * 11, "f" * 13)]
    pairs.append(("see http://example.com/path", "z"))
    criterion = LongWord(max_characters=10)
    reasons = [None, "a target word of 12 characters", "a source word of 11 characters", None]
    assert judge(criterion, *pairs) == reasons
    assert judge(criterion, ("a", "字" * 11), langs=("en", "ja")) == [None]


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("Open the file", "open the file!"), "both sides are equal"),
        (("Chapter 1: the end", "chapter 2, The End"), "both sides are equal"),
        (("Große Straße 5", "GROSSE STRASSE 5"), "both sides are equal"),
        (("Open the file", "Open the files"), None),
        (("New York", "New York"), None),
        (("1 2 3", "1 2 3"), None),
    ],
)
def test_identical(pair: tuple[str, str], reason: str | None) -> None:
    assert judge(Identical(exempt_words=2), pair) == [reason]


def test_identical_exempts_by_the_longer_side() -> None:
    assert judge(Identical(exempt_words=2), ("New York", "New - York")) == ["both sides are equal"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("файл abcd", None),  # 4 of 8 letters
        ("файл abcde", "44% of the target's letters are Cyrillic"),
        ("файл %(filename)s <b>x</b> http://example.com", None),
        ("%(filename)s", None),
        ("файл ªº 123 é", None),  # shared letters, digits and accents are nobody's
        ("2+2=4 да!", "25% of the target is letters"),
        ("", None),
    ],
)
def test_characters_of_cyrillic(target: str, reason: str | None) -> None:
    criterion = Characters(min_share=0.5, min_letters=0.3)
    assert judge(criterion, ("word", target), langs=("en", "ru")) == [reason]


def test_letters_at_the_limit() -> None:
    criterion = Characters(min_letters=0.25)
    assert judge(criterion, ("ab 123456", "x"), ("ab 1234567", "x")) == [None, "22% of the source is letters"]


@pytest.mark.parametrize(
    ("lang", "text"),
    [
        ("ja", "データを保存する"),
        ("zh_TW", "儲存檔案"),
        ("ko", "파일을 저장합니다"),
        ("hi", "फ़ाइल सहेजें"),
        ("th", "บันทึกแฟ้ม"),
        ("ar", "حفظ الملف"),
        ("he", "שמירת הקובץ"),
        ("el", "Αποθήκευση αρχείου"),
        ("ka", "ფაილის შენახვა"),
        ("hy", "Պահպանել ֆայլը"),
        ("am", "ፋይል አስቀምጥ"),
        ("sr", "Sačuvaj датотеку"),
        ("vi", "Lưu tập tin"),
        ("pl", "Zapisz plik"),
    ],
)
def test_every_language_accepts_its_own_script_alone(lang: str, text: str) -> None:
    criterion = Characters(min_share=1.0, min_letters=0.8)
    assert judge(criterion, ("Save", text), langs=("en", lang)) == [None]
    wrong = "Zapisz" if lang not in ("pl", "vi", "sr") else "файл"
    if lang != "sr":
        assert judge(criterion, ("Save", wrong), langs=("en", lang))[0] is not None


def test_scripts_can_be_given() -> None:
    criterion = Characters(source_scripts=["Latin"], target_scripts=["Glagolitic", "Latin"])
    pairs = [("word", "ⰀⰁⰂ"), ("слово", "word"), ("word", "слово")]
    reasons = ["0% of the source's letters are Latin", "0% of the target's letters are Glagolitic or Latin"]
    assert judge(criterion, *pairs, langs=("xx", "yy")) == [None, *reasons]
    with pytest.raises(InputError, match=r"characters: the scripts of 'yy' are not known; give target_scripts, such"):
        judge(Characters(source_scripts=["Latin"]), langs=("xx", "yy"))


@pytest.mark.parametrize(
    ("criterion", "options", "message"),
    [
        (Length, {"min_words": -1}, "min_words: -1 makes no sense; allowed is 0 or more"),
        (Length, {"min_words": 9, "max_words": 8}, "max_words: 8 makes no sense; allowed is 9 or more"),
        (Length, {"max_characters": 0}, "max_characters: 0 makes no sense; allowed is 1 or more"),
        (LengthRatio, {"max_ratio": 0.9}, "max_ratio: 0.9 makes no sense; allowed is 1 or more"),
        (LengthRatio, {"max_ratio": float("nan")}, "max_ratio: nan makes no sense; allowed is 1 or more"),
        (LengthRatio, {"exempt": -1}, "exempt: -1 makes no sense; allowed is 0 or more"),
        (LengthRatio, {"unit": "bytes"}, "unit: 'bytes' is not known; allowed are words and characters"),
        (
            LongWord,
            {"max_characters": 5_000_000_000},
            "max_characters: 5000000000 makes no sense; allowed is 1 to 1000000",
        ),
        (
            Characters,
            {"source_scripts": ["inf"]},
            "source_scripts: 'inf' is no script of Unicode; give names like Latin or Cyrillic",
        ),
        (LongWord, {"max_characters": 0}, "max_characters: 0 makes no sense; allowed is 1 to 1000000"),
        (Identical, {"exempt_words": -1}, "exempt_words: -1 makes no sense; allowed is 0 or more"),
        (Characters, {"min_share": 1.1}, "min_share: 1.1 makes no sense; allowed is 0 to 1"),
        (Characters, {"min_letters": -0.1}, "min_letters: -0.1 makes no sense; allowed is 0 to 1"),
        (
            Characters,
            {"source_scripts": ["Polish"]},
            "source_scripts: 'Polish' is no script of Unicode; give names like Latin or Cyrillic",
        ),
        (Agreement, {"min_share": 2}, "min_share: 2 makes no sense; allowed is 0 to 1"),
    ],
)
def test_senseless_options_are_named(criterion: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        criterion(**options)
    assert str(error.value) == message


@pytest.mark.parametrize("criterion", FILTERS)
def test_batches_without_pairs(criterion: type) -> None:
    assert judge(criterion()) == []


def random_pairs(count: int) -> list[Pair]:
    rng = random.Random(7)
    likely = "      aaąб字1२9%s{}<>/=\"'$@.,:;()-&ß\u0301\ud800\U0001f600" + "www.http://"

    def text() -> str:
        size = rng.choice((0, 3, 10, 80))
        return collapse("".join(rng.choice((rng.choice(likely), chr(rng.randrange(0x110000)))) for _ in range(size)))

    return [Pair(text(), text()) for _ in range(count)]


@pytest.mark.parametrize("criterion", FILTERS)
def test_a_pair_is_judged_by_itself(criterion: type) -> None:
    batch = Batch(random_pairs(2000), ("en", "pl"))
    reasons = criterion().reasons(batch)
    assert len(reasons) == len(batch)
    if criterion is not Identical:
        assert 0 < sum(reason is not None for reason in reasons) < len(batch)
    kept = np.flatnonzero(np.random.default_rng(1).random(len(batch)) < 0.3)
    assert criterion().reasons(batch.take(kept)) == [reasons[row] for row in kept]
    some = batch.pairs[::50]
    assert [judge(criterion(), pair)[0] for pair in some] == reasons[::50]


@pytest.fixture(scope="module")
def good_text() -> list[list[Pair]]:
    """A fifth of each domain."""
    folder = corpus("parallel/en-pl")
    names = ("IT", "LAW", "MED", "REL", "SUB", "TALK")
    return [read_parallel(folder / f"{name}.en", folder / f"{name}.pl")[::5] for name in names]


@pytest.mark.parametrize("criterion", FILTERS)
def test_defaults_keep_good_text(criterion: type, good_text: list[list[Pair]]) -> None:
    for pairs in good_text:
        dropped = sum(reason is not None for reason in judge(criterion(), *pairs))
        # TALK is noisy, and seven in a thousand of its pairs do disagree on numbers.
        assert dropped <= len(pairs) * 0.007
