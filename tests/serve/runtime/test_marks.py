"""Tags and placeholders stand in translations once each, nested, and where attention says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.serve.runtime.pieces import MARK, split
from fairseq_ext.serve.runtime.placing import Marked, Placing
from fairseq_ext.serve.runtime.tags import HTML


def place(marked: Marked, target: str, kept: list[str], attention: np.ndarray) -> str:
    """A translation, T words, with the marks of its source, S words, by attention, T×S."""
    ends = np.cumsum([len(word) + 1 for word in target.split(" ")]) - 1
    spans = [(int(end) - len(word), int(end)) for word, end in zip(target.split(" "), ends, strict=True)]
    return Placing(marked.text, target, kept, spans, attention, lambda part: len(part.split())).text(marked.marks)


def put(source: str, target: str, links: dict[int, int]) -> str:
    """The translation with its marks, where words of the target attend to words of the source."""
    [text] = (pieces := split(f"- {source} -", HTML)).texts
    marked = Marked.read(text, lambda _: True)
    attention = np.zeros((len(target.split(" ")), len(marked.text.split())))
    for word, other in links.items():
        attention[word, other] = 1
    return pieces.join([place(marked, target, list(marked.kept), attention)])


# Words are numbered behind the first, which is a dash.
@pytest.mark.parametrize(
    ("source", "target", "links", "found"),
    [
        ("a <b>b</b> c", "- C B A -", {0: 0, 1: 3, 2: 2, 3: 1, 4: 4}, "- C <b>B</b> A -"),
        ("<b>a <i>b</i></b> c", "- B A, C -", {0: 0, 1: 2, 2: 1, 3: 3, 4: 4}, "- <b><i>B</i> A</b>, C -"),
        ("<b>a</b> <i>b</i>", "- B A -", {0: 0, 1: 2, 2: 1, 3: 3}, "- <i>B</i> <b>A</b> -"),
        ("a <x/> b c", "- A B C -", {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}, "- A <x/> B C -"),
        ("a<x/> b", "- A B -", {0: 0, 1: 1, 2: 2, 3: 3}, "- A<x/> B -"),
        ("<b>{0}</b> a", "- A {0} -", {0: 0, 1: 2, 2: 1, 3: 3}, "- A <b>{0}</b> -"),
    ],
)
def test_marks_stand_where_attention_says(source: str, target: str, links: dict[int, int], found: str) -> None:
    assert put(source, target, links) == found


def test_a_pair_may_find_no_word_left() -> None:
    [text] = (pieces := split("a <b>b</b> <i>c {0}</i> d", HTML)).texts
    found = place(Marked.read(text, lambda _: False), "A", [], np.ones((1, 4)))
    assert pieces.join([found]) == "<b>A</b><i>{0} </i>"


WORDS = ["w1", "W", ",", "{0}", "a-b"]
PARTS = ["w1", "w2 ", " w3", ", ", "<b>", "</b>", "<i>", "</i>", "<x/>", " <x/> ", "{0}", " ", "."]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PARTS), max_size=14), st.lists(st.sampled_from(WORDS), max_size=6))
def test_each_mark_stands_once_and_nested(parts: list[str], words: list[str]) -> None:
    for text in split("".join(parts), HTML).texts:
        marked = Marked.read(text, lambda _: False)
        target = " ".join(words)
        attention = np.random.default_rng(len(text)).random((max(len(words), 1), 1 + len(marked.text.split())))
        found = place(marked, target, ["{0}"], attention)
        asked = [each[0] for each in MARK.finditer(text) if not each[1]]
        assert sorted(each[0] for each in MARK.finditer(found)) == sorted(asked)
        assert found.count("{0}") == text.count("{0}") + words.count("{0}")
        depth: list[str] = []
        for tag in (each[0] for each in MARK.finditer(found)):
            if chr(ord(tag) + 0x4000) in found:
                depth.append(tag)
            elif depth and ord(tag) - ord(depth[-1]) == 0x4000:
                depth.pop()
        assert not depth
        assert MARK.sub("", found).replace("{0}", "").split() == target.replace("{0}", "").split() or "{0}" in text
