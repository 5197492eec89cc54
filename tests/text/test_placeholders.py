"""Placeholders of every family are found, words are not, and the search takes linear time."""

import re
import time

import pytest

from fairseq_ext.text.placeholders import (
    ANY,
    DIALECTS,
    NONE,
    Family,
    arguments,
    count,
    dialect_of,
    families,
    keeps,
    message_syntax,
    parts,
    pattern_of,
)

EXAMPLES = [
    (dialect, family, example) for dialect in DIALECTS for family in families(dialect) for example in family.examples
]


@pytest.mark.parametrize(("dialect", "family", "example"), EXAMPLES, ids=lambda each: getattr(each, "name", each))
def test_examples_are_found_whole(dialect: str, family: Family, example: str) -> None:
    found = pattern_of(dialect).search(f"a ({example}) b")
    assert found is not None
    assert (found[0], found.lastgroup) == (example, family.name)
    assert parts(f"({example}), {example}.", dialect)[1::2] == [example] * 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("100 % sure, 50% of it, 100%sure, 5 %, %", ""),
        ("100 %ig, zu 50 %iger Wahrscheinlichkeit", ""),
        ("10:30, a:b, note: this, C:\\dir, ::, http:", ""),
        ("5 $, US$ 5, $5", ""),
        ("R&D & C#, #1, Q&A;", ""),
        ("{see below} [1] <b> a@ @ !", ""),
        ("%d%% of %s", "%d %% %s"),
        ("%dx%d, %sKB", "%dx %d %sKB"),
        ("%s's %1$s-%2$s", "%s %1$s %2$s"),
        ("“%s”: %s/%s.", "%s %s %s"),
        ("a{0}b{name}", "{0} {name}"),
        ("{0}{1} {{x}} {{{y}}}", "{0} {1} {{x}} {{{y}}}"),
        ("<0>a</0> <b>", "<0> </0>"),
        ("mail a.b@c.de, or https://a.org/%s.", "a.b@c.de https://a.org/%s"),
        ("https://a.org/bを見る", "https://a.org/b"),
        ("[X1X] opens [X2X]", "[X1X] [X2X]"),
        ("%Y-%m-%d", "%Y %m %d"),
        ("{% if a %}b{% endif %}", "{% if a %} {% endif %}"),
        (":count of :name, :smile:", ":count :name :smile:"),
        ("see @:a.b. And $t(c) or {!! d !!}", "@:a.b $t(c) {!! d !!}"),
        ("$USER$: US$ 5, {\\an8}Above, {a:>{b}}", "$USER$ {\\an8} {a:>{b}}"),
    ],
)
def test_words_are_no_placeholders(text: str, found: str) -> None:
    assert " ".join(parts(text)[1::2]) == found
    assert "".join(parts(text)) == text
    assert parts(text, NONE) == [text]


@pytest.mark.parametrize(
    ("dialect", "text", "found"),
    [
        ("c", "100 % sure of %dx%d %sKB", ["% s", "%dx", "%d", "%sKB"]),
        ("c", "100%% of %s, %sHow", ["100%%", "%s", "%s"]),
        ("c", "50 % {0} and 5%", ["%", "{0}", "%"]),
        ("c", "%jrows %'d50 %'x10s", ["%j", "%'d", "%'x10s"]),
        ("lisp", "~a, 5 ~3d; %s", ["~a", "~3d"]),
        ("python", "%(n)s%% %s %1", ["%(n)s", "%%", "%s", "%"]),
        ("qt", "%1KB %s %n", ["%1", "%n"]),
        ("ruby", "%<n>s %{m} %s", ["%<n>s", "%{m}", "%s"]),
    ],
)
def test_a_format_decides_what_a_percent_sign_begins(dialect: str, text: str, found: list[str]) -> None:
    assert parts(text, dialect)[1::2] == found


def test_a_format_is_named_by_gettexts_flags() -> None:
    flags = [
        ["fuzzy", "c-format"],
        ["objc-format"],
        ["python-format"],
        ["kde-format"],
        ["ruby-format"],
        ["lisp-format"],
    ]
    assert [dialect_of(own) for own in flags] == ["c", "c", "python", "qt", "ruby", "lisp"]
    for own in ([], ["no-c-format"], ["python-brace-format"], ["no-wrap"]):
        assert dialect_of(own) == ANY


@pytest.mark.parametrize(
    ("source", "target", "is_kept"),
    [
        ("%s of %d", "%s von %d", True),
        ("%s of %d", "%d von %s", False),
        ("%1$s of %2$d", "%2$d von %1$s", True),
        ("%(a)s of %(b)d", "%(b)d von %(a)s", True),
        ("{} of {}", "{} von {} {}", False),
        ("{0} of {1}", "{1} von {0}", True),
        ("%s and %s", "%s", False),
        ("nothing", "nichts %s", False),
        ("https://a.org/%s %d", "%d https://a.org/%s", False),
        ("%@ has %d%%", "%d%% hat %@", False),
        ("sure", "100 % sicher", True),
    ],
)
def test_a_translation_has_each_once_and_unnumbered_ones_in_order(source: str, target: str, is_kept: bool) -> None:
    assert keeps(source, target) == is_kept
    assert keeps(source, source)
    assert keeps(source, "", NONE)


def test_arguments_are_counted() -> None:
    assert arguments("%s %% %1$s {} {0} %(n)s %@ %minutes%") == ["%s", "{}", "%@"]
    assert arguments("% d %*d %<PRIu64> %2$s", "c") == ["% d", "%*d", "%<PRIu64>"]
    assert count("{0} {0} %s") == {"{0}": 2, "%s": 1}


@pytest.mark.parametrize(
    ("text", "branches"),
    [
        ("{n, plural, one {# item} other {# items}}", ["# item", "# items"]),
        ("I have {n, plural, =0 {none} other {{n} items}} now", ["I have ", "none", "{n} items", " now"]),
        ("{a, select, x {{n, plural, offset:1 one {b} other {c {d}}}} other {e}}", ["b", "c {d}", "e"]),
        ("{n, plural, one {a} other {b}", None),
        ("{n, plural, one}", None),
        ("{n, number} {0} } {", None),
        ("{n, plural, }", [""]),
    ],
)
def test_branches_of_messages_are_text(text: str, branches: list[str] | None) -> None:
    spans = message_syntax(text)
    ends = [0, *(place for span in spans for place in span), len(text)]
    between = [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]
    assert [each for each in between if each] == ([text] if branches is None else [each for each in branches if each])


UNITS = [
    "{", "%", "a.", "{{a", "{%", "<%", "%(", "%a", "%{", "$a", "@a", "a@", ":a", "&a", "a://.", "{a,plural,x{", "[",
    "<0", "#", "-", "%0", "{a", "{n, plural, ", "\\a{", "%*", "%<",
    "{a:{", "@:a", "$t(", "{!!", "%[", "%'", "%|", "~1,", "$a$",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_the_search_takes_linear_time(unit: str) -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        for dialect in DIALECTS:
            parts(text, dialect)
            arguments(text, dialect)
        message_syntax(text)
        return time.process_time() - start

    short, long = (min(seconds(unit * number) for _ in range(3)) for number in (1_000, 8_000))
    assert long < 0.05 + 24 * short  # 8 times if linear, 64 times if quadratic


def test_no_pattern_has_groups_of_its_own() -> None:
    for dialect in DIALECTS[:1]:
        assert pattern_of(dialect).groups == len(families(dialect))
        assert all(re.compile(family.pattern, re.VERBOSE).groups == 0 for family in families(dialect))
