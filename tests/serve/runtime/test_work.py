"""The time to read a text is linear in its length, whatever it contains."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.pieces import between_marks, keep, split, stow, without_marks
from fairseq_ext.serve.runtime.placing import Marked
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.sentences import cut
from fairseq_ext.serve.runtime.tags import HTML, PLAIN, PREFORMATTED_XML, XML
from fairseq_ext.serve.runtime.terms import Glossary, Term, make_term
from fairseq_ext.text.normalise import Normalise, normalise_lines
from fairseq_ext.text.placeholders import arguments, message_syntax

# Beginnings of all that is searched for, which never end or end too often.
UNITS = [
    "{", "{{", "{%", "%", "%(", "%{", "%<", "$", "${", "#", "&", "&#", "&lt;a", "&#10;", "<", "<a", "</a", "<!--", "<!",
    "<?a", "<![CDATA[", "<script>", "<style>a", "<ph>", "<ph>a</ph>", "<b></b>", "a<b>a</b>", "<b>", "</b>", "<p>",
    "<code>", "<a x=\"", "<a x='", "<a b=c ", "<bpt id='1'>", "<x id='START_a'/>", "<em startRef='1'>", "<0>", "a.",
    "a@", "a@a-", "a://", "www.", "https://a ", ".", ". ", ".\"", "\u3002", ",", ", ", "-", "'", "''", "`", "(", "( ",
    ") ", "1 %", "1.", "1,", "1", "a", "a ", " ", "\t", "\n", "a\n", "\t ", "\u00a0", "a\u00a0", "|", "a|", "\v",
    "\\a{", "^{", "[X", "[1,", "@a", "!a", ":a", "{a,plural,", "{a,plural,x{", "{a,plural,x{a}}", "\u0301",
    "a\u0301", "\ud7ff", "\U0001f600", "\U0001f600\u200d", "\u4e00", "\U000f0000", "\U000fc000",
    "\U000fc000a\U000fc001", "<? ",
]  # fmt: skip
_TERMS = Glossary([*(Term("a " * size + "b", ("c",)) for size in range(1, 32)), Term("{", ("c",)), Term("<", ("c",))])


def _pieces(text: str) -> None:
    for syntax in (PLAIN, HTML, XML, PREFORMATTED_XML):
        for part in split(text, syntax).texts[:1000]:
            Marked.read(part, lambda placeholder: len(placeholder) < 9)
            between_marks(part)


def _placeholders(text: str) -> None:
    arguments(text)
    message_syntax(text)
    for dialect in ("c", "python", "ruby", "qt"):
        Request(text, dialect=dialect).divided()


def _sentences(text: str) -> None:
    [*cut(text, 64, len)]
    stowed, held = stow("".join(map(keep, text[:2000])))
    without_marks(stowed.translate(held))


READERS: dict[str, Callable[[str], Any]] = {
    "pieces": _pieces,
    "placeholders": _placeholders,
    "sentences": _sentences,
    "terms": _TERMS.found_in,
    "normalisation": lambda text: normalise_lines([text], "en", Normalise()),
}


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_twice_the_text_takes_twice_the_time(reader: str) -> None:
    def seconds(text: str) -> float:
        start = time.thread_time()
        READERS[reader](text)
        return time.thread_time() - start

    slow = []
    for unit in UNITS:
        for end in ("", "x"):
            short, long = (unit * (size // len(unit)) + end for size in (2_000, 4_000))
            # A first look finds nearly all to be fast. Four times is quadratic; a loaded machine adds noise.
            if (once := seconds(long)) > 0.01:
                times = [min(seconds(text) for _ in range(3)) for text in (short, long)]
                if min(times[1], once) > 0.005 + 3 * times[0]:
                    slow.append((unit, end, times))
    assert not slow


def test_a_term_has_few_words() -> None:
    assert make_term("a " * 32, ["b"], "there").source == "a " * 32
    with pytest.raises(InputError, match="longer than 32 words"):
        make_term("a " * 33, ["b"], "there")
