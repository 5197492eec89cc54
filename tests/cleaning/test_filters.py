"""Every filter just within and just outside its limits."""

import random

import pytest

from fairseq_ext.cleaning.agreement import Agreement
from fairseq_ext.cleaning.characters import Characters
from fairseq_ext.cleaning.filters import Empty, Encoding, Filter, Identical, Length, LengthRatio, LongWord
from fairseq_ext.cleaning.language_id import LanguageId
from fairseq_ext.corpora.text_files import Pair, collapse
from fairseq_ext.inputs.errors import InputError
from tests.cleaning.judging import judge

FILTERS = [Empty, Length, LengthRatio, LongWord, Characters, Encoding, Identical, Agreement, LanguageId]


def test_scripts_can_be_given() -> None:
    criterion = Characters(source_scripts=["Latin"], target_scripts=["Glagolitic", "Latin"])
    kept, source, target = judge(criterion, ("word", "ⰀⰁⰂ"), ("слово", "word"), ("word", "слово"), langs=("xx", "yy"))
    assert kept is None
    assert source == "0% of the source's letters are of its scripts"
    assert target == source.replace("source", "target")
    with pytest.raises(InputError, match="target_scripts"):
        Characters(source_scripts=["Latin"]).check(("xx", "yy"))
    for script in ("inf", "Polish"):
        with pytest.raises(InputError, match=script):
            Characters(source_scripts=[script]).check(("en", "pl"))


def random_pairs(count: int) -> list[Pair]:
    rng = random.Random(7)
    likely = "      aaąб字1२9%s{}<>/=\"'$@.,:;()-&ß\u0301\ud800\U0001f600" + "www.http://"

    def text() -> str:
        size = rng.choice((0, 3, 10, 80))
        return collapse("".join(rng.choice((rng.choice(likely), chr(rng.randrange(0x110000)))) for _ in range(size)))

    return [Pair(text(), text()) for _ in range(count)]


@pytest.mark.parametrize("criterion", FILTERS)
def test_a_pair_is_judged_by_itself(criterion: type[Filter]) -> None:
    pairs = random_pairs(600)
    reasons = judge(criterion(), *pairs)
    if criterion is not Identical:
        assert 0 < sum(reason is not None for reason in reasons) < len(pairs)
    kept = random.Random(1).sample(range(len(pairs)), 200)
    assert judge(criterion(), *(pairs[row] for row in kept)) == [reasons[row] for row in kept]
    assert [judge(criterion(), pair)[0] for pair in pairs[::50]] == reasons[::50]
    assert judge(criterion()) == []
