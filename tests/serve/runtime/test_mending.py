"""Damaged placeholders of translations."""

from collections.abc import Sequence
from string import ascii_letters, digits

import numpy as np
import pytest

from fairseq_ext.serve.runtime.mending import mended
from fairseq_ext.serve.runtime.search import Hypothesis
from fairseq_ext.serve.runtime.vocabulary import Text, Vocabulary

SYMBOLS = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *ascii_letters, *digits, *"%(){}$_.\",':éãçí"]
LAST = 2


class Characters:
    """Subwords of one character."""

    def encode(self, text: str, out_type: type) -> list[str]:
        return list("\u2581".join(text.split(" ")))


@pytest.fixture(scope="module")
def text() -> Text:
    numbers = {"pad": 1, "eos": LAST, "unk": 3, "first": LAST, "last": LAST}
    lists: dict[str, list[int]] = {"before": [], "after": [], "prefix": [], "not_text": [0, 1, 2]}
    return Text(
        Vocabulary(
            SYMBOLS,
            SYMBOLS,
            **numbers,
            **lists,
            not_printed=[0, 1, 2],
            has_tags=False,
            longest_source=99,
            longest_target=99,
        ),
        Characters(),
    )


def hypothesis(text: Text, target: str, **traces: np.ndarray) -> Hypothesis:
    return Hypothesis(np.array([*text.encode_prefix(target), LAST]), -0.5, **traces)


CLEAR = [
    # one is missing, whatever is left of it
    ("Move %(título)", {"%(title)s": 1}, "Move %(title)s"),
    ("Container %(nomes criados.", {"%(name)s": 1}, "Container %(name)s criados."),
    ("custa % GB", {"%s": 1}, "custa %s GB"),
    ("com {nome} e {}", {"{}": 1, "{name}": 1}, "com {name} e {}"),
    ("em ${nome", {"${name}": 1}, "em ${name}"),
    ("em %(place)s%(cinta)s%(netos) s.", {"%(place)s": 1, "%(endnotes)s": 1}, "em %(place)s%(endnotes)s."),
    ("%(nome) e %(d) s", {"%(name)s": 1, "%(d)s": 1}, "%(name)s e %(d)s"),
    ("%(nome) s %(d)", {"%(name)s": 1, "%(d)s": 1}, "%(name)s s %(d)s"),
    ("%10 de %1 em {nome", {"%1": 1, "%10": 1, "{name}": 1}, "%10 de %1 em {name}"),
    # equal ones need no order
    ("% e % são", {"%s": 2}, "%s e %s são"),
    # names that begin alike say which is which; one that has no such name is the one that is left
    ("%(data) de %(nome)", {"%(name)s": 1, "%(date)s": 1}, "%(date)s de %(name)s"),
    ("%(moeda) %(preço)", {"%(currency)s": 1, "%(price)s": 1}, "%(currency)s %(price)s"),
    ("de %(pessoas), %(pais e %(m1)", {"%(person)s": 1, "%(father1)s": 1, "%(mother1)s": 1},
     "de %(person)s, %(father1)s e %(mother1)s"),
    ("%(a) %(b) %(c) %(d)", {f"%({name})s": 1 for name in "dcba"}, "%(a)s %(b)s %(c)s %(d)s"),
]  # fmt: skip
UNCLEAR = [
    ("%(moeda) %(valor)", {"%(currency)s": 1, "%(price)s": 1}),  # which is which?
    ("%(nota) de %(nome)", {"%(name)s": 1, "%(number)s": 1}),  # both begin with n
    ("nada", {"%s": 1}),
    ("%s e %s", {"%s": 1}),
    ("% e % e %", {"%s": 2}),
    ("%(título) (foi", {"%(title)s": 1}),  # what else is left of it?
    ("%(a) %(b) %(c) %(d) %(e)", {f"%({name})s": 1 for name in "abcde"}),
    ("%(title) ö", {"%(title)s": 1}),  # the vocabulary lacks a character
    ("50 % de descontos", {}),
]


@pytest.mark.parametrize(("target", "kept", "expected"), [*CLEAR, *((each, kept, None) for each, kept in UNCLEAR)])
def test_damaged_placeholders_are_written_again_where_it_is_clear(
    text: Text, target: str, kept: dict[str, int], expected: str | None
) -> None:
    own = hypothesis(text, target)
    found = mended(own, kept, text)
    if expected is None:
        assert found is own
    else:
        assert text.decode(found.tokens) == expected
        assert (found.tokens[-1], found.score) == (LAST, -0.5)


def test_new_tokens_have_the_gates_and_attention_of_the_tokens_that_they_replace(text: Text) -> None:
    own = hypothesis(text, "a %(b) c", gates=np.arange(9)[:, None, None], attention=np.arange(9)[:, None])
    found = mended(own, {"%(name)s": 1}, text)
    assert text.decode(found.tokens) == "a %(name)s c"
    expected: Sequence[int] = [0, 1, *[2] * 8, 6, 7, 8]
    assert found.attention is not None
    assert found.gates is not None
    assert found.attention[:, 0].tolist() == found.gates[:, 0, 0].tolist() == expected
