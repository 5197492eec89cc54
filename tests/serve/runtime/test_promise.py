"""Translations have the placeholders of their texts: each once, in order, and no others. Faults are noticed."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ext.serve.runtime.pieces import ALONE, MARK, between_marks, keep, mark, split, stow, without_marks
from fairseq_ext.serve.runtime.placing import Marked
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.search import Found, Hypothesis
from fairseq_ext.serve.runtime.searches import Searches, Sentence
from fairseq_ext.serve.runtime.sentences import cut
from fairseq_ext.serve.runtime.tags import PLAIN, XML
from fairseq_ext.serve.runtime.terms import Glossary, Term
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.runtime.vocabulary import Text
from fairseq_ext.text.placeholders import ANY, NONE, arguments, count, keeps

# Words of the toy model that stand for placeholders here. It writes them as they come.
RENAMED = {"w16": "%s", "w17": "%d", "w18": "{0}", "w19": "%"}


@pytest.fixture(scope="module")
def translator(exported: Path) -> SystemTranslator:
    own = SystemTranslator.load(exported / "gad")
    symbols = [RENAMED.get(symbol, symbol) for symbol in own.text.vocabulary.source]
    text = Text(replace(own.text.vocabulary, source=symbols, target=symbols))
    return SystemTranslator(own.manifest, own.model, text, own.routing.classifier)


def best(translator: SystemTranslator, *texts: str, **more: Any) -> list[str]:
    return [answer.candidates[0].text for answer in translator.translate([Request(text, **more) for text in texts])]


WORDS = [
    *(f"w{number}" for number in range(1, 16)),
    *RENAMED.values(),
    "{1}",
    "<b>",
    "</b>",
    "https://a.org/%s",
    "%s/%d",
]


@pytest.mark.parametrize("dialect", [ANY, "c", "qt"])
def test_placeholders_stand_once_and_in_order_whatever_the_model_writes(
    translator: SystemTranslator, dialect: str
) -> None:
    rng = random.Random(2)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(40)]
    words = best(translator, *texts, dialect=NONE)
    assert any(not keeps(text, found, dialect) for text, found in zip(texts, words, strict=True))
    for text, answer in zip(
        texts, translator.translate([Request(each, dialect=dialect) for each in texts], candidates=2), strict=True
    ):
        for candidate in answer.candidates:
            assert count(candidate.text, dialect) == count(text, dialect)
            assert arguments(candidate.text, dialect) == arguments(text, dialect)
            assert candidate.text.count("<b>") == text.count("<b>")
        assert set(answer.placeholders) <= set(count(text, dialect))


def test_placeholders_that_the_second_search_keeps_are_not_hidden(
    translator: SystemTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide, hidden = Searches._without_placeholders, []
    monkeypatch.setattr(Searches, "_without_placeholders", lambda *given: hidden.append(given) or hide(*given))
    rng = random.Random(2)
    texts = [" ".join(rng.choices([*WORDS[:15], "%s"], k=5)) for _ in range(40)]
    words = translator.translate([Request(text, dialect=NONE) for text in texts], beam=1)
    lost = [text for text, found in zip(texts, words, strict=True) if not keeps(text, found.candidates[0].text)]
    translator.translate([Request(text) for text in lost], beam=1)
    assert len(hidden) < len(lost)


class Scripted:
    """Searches that find the given translations."""

    def __init__(self, translations: dict[str, str]) -> None:
        self._translations = translations

    def translate(self, sentences: Sequence[Sentence], *_: Any, **__: Any) -> list[tuple[Found, list[str], str | None]]:
        found = Found([Hypothesis(np.array([2]), 0.0)])
        return [(found, [self._translations.get(each.marked.text, "?")], None) for each in sentences]


@pytest.mark.parametrize(
    ("text", "translations", "found", "notes"),
    [
        ("a %s b %d c", {"a %s b %d c": "C %d B %s"}, "A %s B %d C", ("parts",)),
        ("a %s b %d c", {"a %s b %d c": "C %s B %d"}, "C %s B %d", ()),
        ("a %s, b", {"a %s, b": "%s %d"}, "A %s, B", ("parts",)),
        ("sure", {"sure": "100 %s"}, "sure", ("untranslated",)),
        ("sure {0}", {"sure": "100 %s"}, "sure {0}", ("untranslated", "parts")),
        ("x\na %s b", {"a %s b": "A B", "x": "X"}, "X\nA %s B", ("parts",)),
        ("x <b>a {0} b</b> y", {"x a {0} b y": "X"}, "X <b>A {0} B</b> Y", ("parts",)),
        ("a\u00a0b {0}", {"a b": "CD"}, "CD {0}", ("parts",)),
    ],
)  # fmt: skip
def test_what_no_search_keeps_is_translated_in_parts_or_left(
    translator: SystemTranslator, text: str, translations: dict[str, str], found: str, notes: tuple[str, ...]
) -> None:
    parts = {"a": "A", "b": "B", "c": "C", "x": "X", "y": "Y", ", b": ", B"}
    own = SystemTranslator(translator.manifest, translator.model, translator.text, None)
    own._searches = Scripted(parts | translations)  # type: ignore[assignment]
    [answer] = own.translate([Request(text, "base")])
    assert answer.candidates[0].text == found
    assert answer.notes == notes


def test_a_word_that_the_vocabulary_does_not_know_is_copied(translator: SystemTranslator) -> None:
    known, family = Text(translator.text.vocabulary), "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    known.is_unknown = lambda text: text in (family, "🎉", "Größe", "龍", "#")  # type: ignore[method-assign]
    own = SystemTranslator(translator.manifest, translator.model, known, None)
    for text in (f"w1 {family} w2", "w1 🎉! w2 🎉", "w1 Größe w3", "w4 龍w5", "w1 # w2#"):
        [found] = best(own, text, route="base")
        assert all(found.count(each) == text.count(each) for each in (family, "🎉", "Größe", "龍", "#"))
    assert "größe" not in best(own, "w1 größe w3", route="base")[0]
    [answer] = own.translate([Request("龍 #", "base")])
    assert (answer.candidates[0].text, answer.notes) == ("龍 #", ("untranslated",))


def test_an_unknown_apostrophe_in_a_word_becomes_the_plain_one(translator: SystemTranslator) -> None:
    known = Text(translator.text.vocabulary)
    known.is_unknown = lambda text: text == "’"  # type: ignore[method-assign]
    own = SystemTranslator(replace(translator.manifest, text=None), translator.model, known, None)
    [question] = own.reader.read([Request("‘a’ b’c 5’6 d’", "base")], str)
    marked = question.sentences[0].marked
    assert without_marks(marked.original) == "‘a’ b'c 5’6 d’"
    assert marked.placeholders == ("’",) * 3


def test_no_break_spaces_stay(translator: SystemTranslator) -> None:
    for text in ("w1\u00a0w2 w3", "\u00a0w1 w2\u202fw3\u00a0w4", "w1 {0}\u00a0w3"):
        [found] = best(translator, text)
        assert [found.count(blank) for blank in "\u00a0\u202f"] == [text.count(blank) for blank in "\u00a0\u202f"]


@pytest.mark.parametrize(
    ("source", "target", "spaced"),
    [
        ("a %s b", "A%sB", "A %s B"),
        ("a%s b", "A%sB", "A%s B"),
        ("%s a", "%sA", "%s A"),
        ("a %s.", "A%s.", "A %s."),
        ("a {0} b %s c", "A-{0}-B (%s) C", "A-{0}-B (%s) C"),
        ("a", "A", "A"),
        ("{0}Open it now{1}", "{0} Jetzt da {1}", "{0}Jetzt da{1}"),
        ("a {0}x b", "A {0} x B", "A {0} x B"),
        ("a %s bcd%s e", "A %s BCD %sE", "A %s BCD%s E"),
    ],
)
def test_blanks_beside_placeholders_stay(source: str, target: str, spaced: str) -> None:
    [text] = split(f"x {source} y").texts
    assert Marked.read(text, lambda _: True).spaced(target) == spaced


@pytest.mark.parametrize(
    ("text", "is_markup", "texts"),
    [
        ("{n, plural, one {# row} other {<b>all</b> rows}}", True, ["# row", "all rows"]),
        ('{V, plural, =0 {none} other {<x id="I" equiv-text="{{n}}"/> rows}}', True, ["none", "rows"]),
        ("one apple|%count% apples", False, ["one apple", "%count% apples"]),
        ("{0,choice,0#a|1#b} of c", False, ["{0,choice,0#a|1#b} of c"]),
        ("<0>a</0> b &lt;i&gt;c&lt;/i&gt; d", False, ["a b c d"]),
        ("a %<n>s %<PRIu64> b", False, ["a %<n>s %<PRIu64> b"]),
        ("a\u00a0b&nbsp;c", False, ["a\u00a0b&nbsp;c"]),
        ("&Open (_As)\tCtrl+O", False, ["Open (As)", "Ctrl+O"]),
        ("&amp;Open &amp;nbsp; &amp; AT&amp;T", True, ["Open &nbsp; & AT&T"]),
        ("R&D of _a_b https://a.b/?c=&d=e", False, ["R&D of _a_b https://a.b/?c=&d=e"]),
    ],
)
def test_texts_are_split_where_placeholders_allow(text: str, is_markup: bool, texts: list[str]) -> None:
    pieces = split(text, XML if is_markup else PLAIN)
    assert [MARK.sub(lambda found: found[1] or "", each) for each in pieces.texts] == texts
    assert pieces.join(pieces.texts) == text


def test_a_text_is_cut_beside_placeholders_only() -> None:
    text = " ".join(f"a, {keep('{% if x. y %}')} b" for _ in range(6))
    stowed, held = stow(text)
    assert len(stowed) < len(text)
    assert stowed.translate(held) == text
    parts = [part for part, _ in cut(text, 5, lambda part: len(part.split()))]
    assert " ".join(parts) == text
    assert all(part.count("{%") == part.count("%}") for part in parts)


def test_a_model_sees_a_no_break_space_as_a_blank() -> None:
    [text] = split("a&nbsp;b c&#xA0;d\u202fe").texts
    assert Marked.read(text, lambda _: True).text == "a b c d e"
    assert between_marks(text).join(["x"]) == "x"
    assert between_marks(f"a {keep('{0}')} {text}").texts[1:] == [text]


def test_between_marks_are_words() -> None:
    tag = mark(ALONE, 1)
    pieces = between_marks(f"a {keep('%s')} b{tag}{keep(' ')}c {keep('%d')}1")
    assert pieces.texts == ["a", "b", "c"] or pieces.texts == ["a", "b"]
    assert pieces.join(["A", "B", "C"][: len(pieces.texts)]).startswith(f"A %s B{tag} ")


def sentence(tokens: Sequence[int]) -> Sentence:
    return Sentence(Marked("", ""), np.array(tokens), [], None, False, {}, [], ANY)


@pytest.mark.parametrize(
    ("source", "target", "fault"),
    [
        (range(9), range(12), None),
        (range(9), [5, 6] * 6, "repetition"),
        (range(9), [3, 4, *[7] * 8], "repetition"),
        (range(9), [7] * 5, None),
        ([5, 6] * 6, [7, 8] * 6, None),
        ([5, 6] * 2, [7, 8] * 16, "repetition"),
        (range(4), range(40), "length"),
        (range(40), range(4), "length"),
        (range(20), [4], None),
    ],
)
def test_faults_are_noticed(source: Sequence[int], target: Sequence[int], fault: str | None) -> None:
    assert sentence([*source, 2]).fault_of(np.array([*target, 2])) == fault


TERMS = Glossary([Term("event", ("Termin",)), Term("show", ("zeigen",)), Term("mail", ("Post",))])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Delete {event} of the show?", ["show"]),
        ("See https://example.org/event/show now", []),
        ("Write to mail@example.org or <show>", []),
        ("%3$sHow to open an event", ["event"]),
        ("%(event)s show", ["show"]),
        ("<a title='mail'>event</a>", ["event"]),
        ("event\u00a0mail", ["event", "mail"]),
    ],
)
def test_terms_are_not_within_placeholders_addresses_and_tags(text: str, found: list[str]) -> None:
    texts = split(text).texts
    marked = [Marked.read(each, lambda _: True) for each in texts]
    assert [term.source for each in marked for term in TERMS.found_in(each.words)] == found


@pytest.mark.parametrize(
    ("source", "target", "is_kept"),
    [
        ("a %s b", "A %s B", True),
        ("a %s b", "A%sB", True),  # blanks are put there
        ("a %s b", "A B", False),
        ("a %s b", "A %s B %d", False),
        ("a %s b", "A %s B }", False),
        ("a %s b", "%s", False),
        ("a [1] %s", "A [1] %s", True),
        ("a", "A }", True),
        ("a", "A %s", False),
    ],
)
def test_what_a_search_has_to_keep(source: str, target: str, is_kept: bool) -> None:
    [text] = split(f"x {source} y").texts
    marked = Marked.read(text, lambda _: True)
    own = Sentence(marked, np.array([2]), [], None, False, {}, [1] * len(marked.kept), ANY)  # type: ignore[list-item]
    assert own.is_kept(target) == is_kept


@pytest.mark.parametrize(("text", "work"), [("a b", 0), ("%s a %d", 32), ("a <b>c</b>", 2), ("<b>%s</b> a", 18)])
def test_placeholders_and_tags_are_work(translator: SystemTranslator, text: str, work: int) -> None:
    [piece], _ = Request(text, "base", markup=True).divided()
    assert translator.extra_work(piece) == work
