"""Which tags are pairs, whatever their form, which stay with their content, and where a text is cut."""

import pytest

from fairseq_ext.serve.runtime.tags import HTML, PLAIN, PREFORMATTED_XML, XML, Syntax, pair_up, runs


def cut(text: str, syntax: Syntax = XML) -> list[str]:
    """The runs of a text."""
    return ["".join(part.raw for part in run) for run, _ in runs(text, syntax) if run]


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ('<g id="1">', "</g>"),
        ('<x:g id="1">', "</x:g>"),
        ('<mrk mtype="x-a">', "</mrk>"),
        ('<pc id="1">', "</pc>"),
        ('<bpt id="1">&lt;b></bpt>', '<ept id="1">&lt;/b></ept>'),
        ('<bpt i="1" x="2"/>', '<ept i="1"/>'),
        ('<bx id="1" rid="7"/>', '<ex id="2" rid="7"/>'),
        ('<sc id="1"/>', '<ec startRef="1"/>'),
        ('<sm id="1"/>', '<em startRef="1"/>'),
        ('<it id="1" pos="begin"/>', '<it id="2" pos="end"/>'),
        ('<it id="1" pos="open">{i}</it>', '<it id="2" pos="close">{/i}</it>'),
        ('<x id="START_LINK_1" equiv-text="&lt;a&gt;"/>', '<x id="CLOSE_LINK" equiv-text="&lt;/a&gt;"/>'),
        ('<ph id="1">&lt;b class="x"&gt;</ph>', '<ph id="2">&lt;/b&gt;</ph>'),
        ('<ph id="1" equiv="&lt;b&gt;"/>', '<ph id="2" equiv="&lt;/b&gt;"/>'),
        ("&lt;b&gt;", "&lt;/b&gt;"),
        ("<B CLASS=x>", "</b>"),
        ("<em>", "</em>"),
        ("<0>", "</0>"),
    ],
)
def test_halves_of_all_forms_are_pairs(first: str, last: str) -> None:
    [(run, _)] = [each for each in runs(f"a {first}b{last} c", XML) if each[0]]
    pairs, crossing = pair_up(run)
    assert ([part.raw for part in run], pairs, crossing) == (["a ", first, "b", last, " c"], {1: 3, 3: 1}, set())


@pytest.mark.parametrize(
    "tag", ["<x/>", '<ph id="1"/>', "<img>", "<b>", "</b>", "<!-- <b> -->", "&e;", '<x id="START"/>']
)
def test_others_stand_alone(tag: str) -> None:
    [(run, _)] = [each for each in runs(f"a {tag} b", XML) if each[0]]
    assert (run[1].raw, pair_up(run)) == (tag, ({}, set()))


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("a <b>b <i>c</i></b> d", ["a <b>b <i>c</i></b> d"]),
        ("a <b>b<br>c</b> d", ["a ", "b", "c", " d"]),  # a pair that is cut cuts again
        ("a <b>b <i>c</b> d</i> e", ["a ", "b ", "c", " d", " e"]),
        ('<bpt i="1"/>a<bpt i="2"/>b<ept i="1"/>c<ept i="2"/>', ["a", "b", "c"]),
        ("a<br>" * 3, ["a"] * 3),
        ("a&#10;b&#xD;&#x0a;c&#160;d", ["a", "b", "c&#160;d"]),
        ("a\nb", ["a\nb"]),
        ("{n, plural, one {# a} other {# b <x/>}}", ["# a", "# b <x/>"]),
    ],
)
def test_halves_are_in_one_run_or_end_it(text: str, cuts: list[str]) -> None:
    assert cut(text, HTML) == cuts


def test_line_breaks_end_a_run_where_they_are_no_blanks() -> None:
    assert [cut("a\nb\u2028c", each) for each in (PLAIN, PREFORMATTED_XML, XML)] == [["a", "b", "c"]] * 2 + [
        ["a\nb", "c"]
    ]


@pytest.mark.parametrize(
    "element",
    [
        "<code>a <b>b</b></code>",
        "<kbd>a</kbd>",
        '<g id="1" translate="no">a</g>',
        "<span translate=no>a <span>b</span></span>",
        '<span class="x notranslate">a</span>',
        '<mrk mtype="protected">a</mrk>',
        '<g its:translate="no">a</g>',
        "&lt;code&gt;a&lt;/code&gt;",
    ],
)
def test_what_is_not_translated_is_one_part(element: str) -> None:
    [(run, _)] = [each for each in runs(f"a {element} b", XML) if each[0]]
    assert [part.raw for part in run] == ["a ", element, " b"]


def test_pairs_within_too_many_others_cut() -> None:
    for depth, size in ((100, 201), (101, 1), (5000, 1)):
        text = "<b>" * depth + "a" + "</b>" * depth
        [size_of_run] = [len(run) for run, _ in runs(text, HTML) if any(not part.tag for part in run)]
        assert size_of_run == size


def test_ten_thousand_tags_take_no_time() -> None:
    for text in ("<b>" * 10_000 + "</i>" * 10_000, "<i>" + "<b>a" * 10_000 + "</i>" + "</b>" * 10_000):
        assert "".join(part.raw for run, end in runs(text, HTML) for part in (*run, end)) == text
