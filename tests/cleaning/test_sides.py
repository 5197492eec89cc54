"""Exchanged sides and sides in one language are found before anything is trained on them."""

from __future__ import annotations

import pytest

from fairseq_ext.cleaning.language_id import check_sides
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

ENGLISH = [f"the committee adopted its report number {number} this morning" for number in range(60)]
GERMAN = [f"der Ausschuss hat heute Morgen den Bericht Nummer {number} angenommen" for number in range(60)]
REWORDED = [f"this morning the members agreed on document {number} of the committee" for number in range(60)]


def check(sources: list[str], targets: list[str], langs: tuple[str, str] = ("en", "de")) -> None:
    check_sides([Pair(*sides) for sides in zip(sources, targets, strict=True)], langs, "law")


@pytest.mark.parametrize(
    ("sources", "targets", "said"),
    [
        (GERMAN, ENGLISH, "law: the en side is in de and the de side in en"),
        (ENGLISH, REWORDED, "law: the target side is in en"),
        (GERMAN, [line.replace("heute", "gestern") for line in GERMAN], "law: the source side is in de"),
        (ENGLISH, ENGLISH, "law: the en side and the de side are the same text"),
    ],
)
def test_wrong_languages_are_named(sources: list[str], targets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        check(sources, targets)


def test_some_untranslated_lines_are_no_reason() -> None:
    check(ENGLISH, GERMAN[:35] + ENGLISH[35:])  # 42 % are copies, as in lists of names
    check([*ENGLISH, *GERMAN[:20]], [*GERMAN, *ENGLISH[:20]])


def test_nothing_is_said_of_few_or_short_lines() -> None:
    check(GERMAN[:49], ENGLISH[:49])
    with pytest.raises(InputError):
        check(GERMAN[:50], ENGLISH[:50])
    check(["der Bericht"] * 100, ["the report"] * 100)
