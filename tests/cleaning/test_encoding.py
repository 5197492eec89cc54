"""Text that was read in the wrong encoding is found, and text in the right one is left alone."""

import pytest

from fairseq_ext.cleaning.filters import Encoding, is_misread
from tests.cleaning.judging import judge


@pytest.mark.parametrize(
    "text",
    [
        "wiÄ™cej",
        "Czy na pewno przerwaÄ instalacjÄ produktu?",  # Latin-1, its control characters gone
        "WybĂłr produktu",  # Windows-1250
        "GrÃ¶ÃŸe Ã¤ndern",
        "ÐŸÑ€Ð¸Ð²ÐµÑ‚",
    ],
)
def test_misread_text_is_found(text: str) -> None:
    assert is_misread(text)


@pytest.mark.parametrize(
    "text",
    [
        "Zażółć gęślą jaźń – „więcej”…",
        "Größe ändern für die »Übersetzung«",
        "ÄPFEL FÜR MÄDCHEN",
        "PÅ VEG TILL ÅS",
        "Å ena sidan, à côté, Été: 20 °C ± 2",
        "Привет, мир: №5",
        "你好，世界。",
    ],
)
def test_text_read_right_passes(text: str) -> None:
    assert not is_misread(text)


def test_the_reason_names_the_side() -> None:
    target, source, none = judge(Encoding(), ("more", "wiÄ™cej"), ("donâ€™t", "nie"), ("more", "więcej"))
    assert str(target).startswith("the target")
    assert str(source).startswith("the source")
    assert none is None
