"""Cleaning of user-interface messages."""

import pytest

from fairseq_ext.corpora.gettext_catalogues import (
    clean_message,
    has_letters,
    is_message_key,
    strip_accelerators,
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("<b>Save</b> all<br/>files", "Save all files"),
        ('See <a href="%(url)s">the manual</a>.', "See the manual."),
        ("<p>One</p><p>Two</p>", "One Two"),
        ("clone <source> <dest>", "clone <source> <dest>"),
        ("a &amp; b &lt;c&gt; &nbsp;d &#8230;", "a & b <c> d …"),
        ("&notify all", "&notify all"),
        ("a<!-- b -->c <!-- d <!-- e --> f <!-- g", "ac f <!-- g"),
        (f"a &#{'1' * 5000}; &#55296;", f"a &#{'1' * 5000}; \ufffd"),
        ("two\n  lines\u2028three", "two lines three"),
        ("soft\u00adhyphen\u200b", "softhyphen"),
        ("%(name)s has {count} of ${total}", "%(name)s has {count} of ${total}"),
    ],
)
def test_markup_goes_and_placeholders_stay(text: str, clean: str) -> None:
    assert clean_message(text) == clean


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("&File", "&Datei", ("File", "Datei")),
        ("Clear _All", "_Alles löschen", ("Clear All", "Alles löschen")),
        ("Chil_dren", "Kin_der", ("Children", "Kinder")),
        ("Save &as", "Speichern &unter", ("Save as", "Speichern unter")),
        ("&Open...", "開く(&O)...", ("Open...", "開く...")),
        ("R&D budget", "R&D-Budget", ("R&D budget", "R&D-Budget")),
        ("Q&A", "F&A", ("Q&A", "F&A")),
        ("set log_level now", "log_level jetzt setzen", ("set log_level now", "log_level jetzt setzen")),
        ("%(father_name)s", "%(father_name)s", ("%(father_name)s", "%(father_name)s")),
        ("by {user_name}", "von {user_name}", ("by {user_name}", "von {user_name}")),
        ("a & b", "a & b", ("a & b", "a & b")),
        ("https://a.example/?x=1&y=2", "https://a.example/?x=1&y=2", None),
    ],
)
def test_accelerators_go_and_names_stay(source: str, target: str, expected: tuple[str, str] | None) -> None:
    assert strip_accelerators(source, target) == (expected or (source, target))


def test_keys_and_placeholders_are_told_from_words() -> None:
    assert has_letters("%s files")
    assert not has_letters("%(number)s / {total} – 100%")
    assert is_message_key("label_add_item")
    assert not any(map(is_message_key, ("Chil_dren", "_File", "read-only", "add_item now", "save")))
