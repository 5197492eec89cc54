"""Terms: which a text has, and that translations keep them."""

import random
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.search import Found, Hypothesis, Search
from fairseq_ext.serve.runtime.terms import Constraint, Glossary, Term, TermSearch
from fairseq_ext.serve.runtime.translator import SystemTranslator

TERMS = [
    Term("event", ("Termin",)), Term("event list", ("Liste",)), Term("IT", ("EDV",)), Term("event", ("Ereignis",)),
    Term("file(s)", ("Dateien",)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Event, event.", {"event": ("Termin", "Ereignis")}),
        ("The event list", {"event list": ("Liste",)}),
        ("It is IT", {"IT": ("EDV",)}),
        ("It prevents events", {}),
        ("All file(s)!", {"file(s)": ("Dateien",)}),
        ("", {}),
        ("it IT", {"IT": ("EDV",)}),
    ],
)
def test_terms_are_whole_words_the_longest_of_them(text: str, found: dict[str, tuple[str, ...]]) -> None:
    assert {term.source: term.targets for term in Glossary(TERMS).found_in(text)} == found


def test_a_form_is_a_whole_word_and_has_a_capital_where_it_begins() -> None:
    constraint = Constraint.of(["zeigen", "Terminen"], lambda _: [1], has_spaces=True)
    for text, form in (("„Zeigen", "Zeigen"), ("(Terminen)", "Terminen")):
        assert constraint.found_in(text) == form
    for text in ("das Zeigen", "Terminende", "anzeigen"):
        assert constraint.found_in(text) is None
    assert Constraint.of(["終"], lambda _: [1], has_spaces=False).found_in("始終点") == "終"


def test_a_hypothesis_that_ends_with_the_longest_beginning_of_a_form_lacks_the_rest() -> None:
    constraint = Constraint([[1, 1, 2]], [], re.compile("x"))
    assert (constraint.missing([5, 1, 1], ""), constraint.next_tokens([5, 1, 1])) == (1, {2})


@pytest.mark.parametrize("line", ["event", "event\t", "\tTermin", "!\t"])
def test_a_line_that_is_no_term_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(f"a\tb\tc\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"terms\.tsv, line 2"):
        Glossary.read(path)


def test_translations_keep_what_is_given_whatever_the_model_thinks(exported: Path) -> None:
    translator, rng = SystemTranslator.load(exported / "gad"), random.Random(1)
    words = [f"w{number}" for number in range(20)]
    requests = []
    for _ in range(12):
        source = rng.sample(words, 3)
        terms = [Term(word, (" ".join(rng.sample(words, rng.randint(1, 2))), rng.choice(words))) for word in source[:2]]
        requests.append(Request(" ".join(source), terms=Glossary(terms)))
    free = translator.translate([Request(request.text) for request in requests])
    together = translator.translate([*requests, *(Request(request.text) for request in requests)], candidates=2)
    for request, answer in zip(requests, together, strict=False):
        text = answer.candidates[0].text
        for term in request.terms:
            assert answer.terms[term.source] in term.targets
            assert f" {answer.terms[term.source]} " in f" {text} "
        [alone] = translator.translate([request], candidates=2)
        assert [each.text for each in alone.candidates] == [each.text for each in answer.candidates]
    assert [each.candidates[0].text for each in together[12:]] == [each.candidates[0].text for each in free]
    assert [each.candidates[0].text for each in together[:12]] != [each.candidates[0].text for each in free]


def test_a_term_that_cannot_be_kept_is_named_and_the_rest_translated(exported: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("w4\tw1 w2 w3 w4 w5 w6 w7 w8\nw5\tnothing\nw6\tw7\n", encoding="utf-8")
    translator = SystemTranslator.load(exported / "mix", terms=tmp_path / "terms.tsv")  # of six words at most
    [answer] = translator.translate([Request("w4 w5 w6")])
    assert answer.candidates[0].text
    assert (answer.terms["w4"], answer.terms["w5"]) == (None, None)
    [other] = translator.translate([Request("w5 w6", terms=Glossary([Term("w6", ("w9",))]))])
    assert other.terms == {"w5": None, "w6": "w9"}


def test_a_translation_may_be_three_tokens_longer_than_without_terms_and_the_terms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Search, "__init__", lambda self: setattr(self, "limits", np.array([50, 50, 6])))
    long, short = (Constraint([[5] * size], [], re.compile("x")) for size in (4, 2))
    search = TermSearch(constraints=[[long, short], [], [long]], lengths=[10, 10, 10], decode=str)
    assert search.limits.tolist() == [10 + 4 + 2 + 3, 10 + 3, 6]


def test_half_of_the_beam_is_for_hypotheses_that_lack_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if banks with unmet terms have better scores; the rest of the beam is shared out in turn."""
    monkeypatch.setattr(Search, "__init__", lambda self: setattr(self, "limits", np.array([9])))
    search = TermSearch(constraints=[[]], lengths=[9], decode=str)
    search.scores, search.tokens = np.zeros((1, 1)), np.zeros((1, 1, 1), int)
    search.vocabulary, search.options = SimpleNamespace(last=99), SimpleNamespace(beam=4)
    lacks = [2, 2, 1, 1, 0, 0, 0, 0]  # of each continuation, the best first
    monkeypatch.setattr(search, "_lacks", lambda row, tokens: lacks[tokens[-1]])
    totals, tokens = -np.arange(8.0), np.arange(8)
    assert search._shared_out(0, totals, tokens, range(8)).tolist() == [4, 5, 2, 0, 3, 1, 6, 7]


def test_a_longer_translation_does_not_win_by_its_mean_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens beyond the length without terms count as those before, with the sum of their scores."""
    found = Found([Hypothesis(np.arange(8), score=-1.0), Hypothesis(np.arange(4), score=-1.5)])
    monkeypatch.setattr(Search, "__init__", lambda self: setattr(self, "limits", np.array([9])))
    monkeypatch.setattr(Search, "run", lambda self: [found])
    search = TermSearch(constraints=[[]], lengths=[4], decode=str)
    search.options = SimpleNamespace(lenpen=1.0)
    assert [len(each.tokens) for each in search.run()[0].hypotheses] == [4, 8]
