"""Every filter just within and just outside its limits, and pairs judged by themselves.

A line of ``judgements.jsonl`` is a filter, its options, the languages, source, target, and the reason or null.
"""

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.cleaning.agreement import Agreement
from fairseq_ext.text.cleaning.characters import Characters
from fairseq_ext.text.cleaning.clean import FILTERS
from fairseq_ext.text.cleaning.dictionary import Dictionary
from fairseq_ext.text.cleaning.filters import Filter, LengthRatio
from fairseq_ext.text.cleaning.language_id import LanguageId
from fairseq_ext.text.text_files import Pair, collapse
from tests.text.cleaning.judging import judge

LINES = [json.loads(line) for line in Path(__file__).with_name("judgements.jsonl").read_text("utf-8").splitlines()]
GROUPS: dict[tuple[str, str, str], list[tuple[str, str, str | None]]] = defaultdict(list)
for name, options, langs, source, target, reason in LINES:
    GROUPS[name, json.dumps(options), langs].append((source, target, reason))


def is_slow(name: str, options: str, langs: str) -> bool:
    """Whether a model of languages or the scripts of rare languages have to be loaded."""
    return name == "language" or (name == "characters" and (langs[3:] in ("ru", "ja", "hi") or "Glagolitic" in options))


@pytest.mark.parametrize(
    ("name", "options", "langs"),
    [pytest.param(*group, marks=[pytest.mark.slow] * is_slow(*group)) for group in GROUPS],
)
def test_judgements_are_the_recorded_ones(name: str, options: str, langs: str) -> None:
    cases = GROUPS[name, options, langs]
    criterion = FILTERS[name].model_validate_json(options)
    source_lang, target_lang = langs.split()
    found = judge(criterion, *((one, other) for one, other, _ in cases), langs=(source_lang, target_lang))
    assert found == [reason for *_, reason in cases]


def test_pairs_with_an_endless_side_pass() -> None:
    # Finding groups of thousands takes quadratic time on the last of these.
    for size, reason in ((10_000, "numbers only in the source: 1638"), (10_001, None)):
        text = "1638" + "a" * (size - 4)
        assert judge(Agreement(), (text, "x"), ("x", text)) == [reason, reason and reason.replace("source", "target")]


@pytest.mark.parametrize(
    ("criterion", "langs", "place"),
    [
        (Characters(source_scripts=["Latin"]), ("xx", "yy"), "target_scripts"),
        *((Characters(source_scripts=[script]), ("en", "pl"), script) for script in ("inf", "Polish")),
        pytest.param(LanguageId(distractors=["de", "tlh"]), ("en", "pl"), "tlh", marks=pytest.mark.slow),
        (Dictionary(), ("en", "zh"), "zh"),
        (LengthRatio(), ("ja", "en"), "ja"),
    ],
)
def test_unknown_scripts_and_languages_are_errors(criterion: Filter, langs: tuple[str, str], place: str) -> None:
    with pytest.raises(InputError, match=place):
        criterion.check(langs)


@pytest.mark.parametrize(
    "name",
    [
        *(name for name in FILTERS if name not in ("language", "completeness", "dictionary")),
        pytest.param("language", marks=pytest.mark.slow),
    ],
)
def test_a_pair_is_judged_by_itself(name: str) -> None:
    rng, criterion = random.Random(7), FILTERS[name]()
    likely = "      aaąб字1२9%s{}<>/=\"'$@.,:;()-&ß\u0301\ud800\U0001f600" + "www.http://"

    def text() -> str:
        size = rng.choice((0, 3, 10, 80))
        return collapse("".join(rng.choice((rng.choice(likely), chr(rng.randrange(0x110000)))) for _ in range(size)))

    pairs = [Pair(text(), text()) for _ in range(300)]
    reasons = judge(criterion, *pairs)
    if name != "identical":
        assert 0 < sum(reason is not None for reason in reasons) < len(pairs)
    assert [judge(criterion, pair)[0] for pair in pairs[::25]] == reasons[::25]
    assert judge(criterion) == []
