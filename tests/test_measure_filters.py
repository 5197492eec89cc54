"""Every noise does what its name says, to all pairs that it can change; what is found and lost is counted right."""

import random

import pytest

from benchmarks.shared.noise import GOOD, TOGETHER, Example, add_noise, draw_examples, measure
from fairseq_ext.cleaning.clean import FILTERS, Cleaning
from fairseq_ext.cleaning.completeness import Completeness
from fairseq_ext.cleaning.dictionary import Dictionary
from fairseq_ext.cleaning.filters import Empty, Length
from fairseq_ext.corpora.normalise import Normalise
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.tables import Table
from tests.real_corpora import corpus

LANGS = ("en", "pl")
OTHER = Pair("Yes", "Tak")
EXAMPLES = [
    Example(*pair, following=OTHER, other=OTHER, alike=OTHER, boilerplate="Wszelkie prawa.", foreign="Wir warten.")
    for pair in (("We saw 12 houses.", "Widzieliśmy 12 domów."), ("The cat sleeps here", "Tu śpi kot"))
]


@pytest.mark.parametrize(
    ("noise", "targets"),
    [
        ("misaligned: a random target", ["Tak", "Tak"]),
        ("misaligned: the next line's target", ["Tak", "Tak"]),
        ("sides swapped", ["We saw 12 houses.", "The cat sleeps here"]),
        ("target copied from source", ["We saw 12 houses.", "The cat sleeps here"]),
        ("target in another language", ["Wir warten.", "Wir warten."]),
        ("target cut to half", ["Widzieliśmy 12", "Tu śpi"]),
        ("source cut to half", ["Widzieliśmy 12 domów.", "Tu śpi kot"]),
        ("boilerplate appended", ["Widzieliśmy 12 domów. Wszelkie prawa.", "Tu śpi kot Wszelkie prawa."]),
        ("a second sentence appended", ["Widzieliśmy 12 domów. Tak", "Tu śpi kot Tak"]),
        ("half of the target left in the source language", ["Widzieliśmy 12 houses.", "Tu sleeps here"]),
        ("numbers changed", ["Widzieliśmy 23 domów."]),
        ("UTF-8 read as Windows-1252", ["WidzieliÅ›my 12 domÃ³w.", "Tu Å›pi kot"]),
        ("UTF-8 read as Latin-1", ["WidzieliÅ my 12 domÃ³w.", "Tu Å pi kot"]),
    ],
)
def test_noises(noise: str, targets: list[str]) -> None:
    assert [pair.target for pair in add_noise(EXAMPLES)[noise]] == targets


def corpora() -> list[list[Pair]]:
    return [[Pair(f"{name} {n} a b", f"{name} {n} c d e") for n in range(size)] for name, size in (("x", 9), ("y", 99))]


def test_examples_are_even_and_apart_from_the_rest() -> None:
    examples, others = draw_examples(corpora(), 30)
    assert [sum(each.source[0] == name for each in examples) for name in "xy"] == [4, 26]
    assert not {(each.source, each.target) for each in examples} & {pair for rest in others for pair in rest}
    assert len(examples) + sum(map(len, others)) == 108
    for each in examples:
        name, number, *_ = each.source.split()
        assert each.following.source.startswith(f"{name} {int(number) + 1} ")
        assert each.source not in (each.other.source, each.alike.source)
    assert draw_examples(corpora(), 30)[0] == examples != draw_examples(corpora(), 30, seed=2)[0]
    with pytest.raises(InputError, match="--min-words"):
        draw_examples(corpora(), 2, min_words=9)


def invented() -> list[Pair]:
    rng = random.Random(1)
    numbers = [rng.sample(range(200), rng.randrange(4, 12)) for _ in range(2000)]
    return [Pair(" ".join(f"s{n}" for n in row) + ".", " ".join(f"t{n}" for n in row) + ".") for row in numbers]


def cells(table: Table, column: str) -> dict[str, float]:
    """The numbers of a column, by row."""
    [found] = [each for each in table.columns if each.heading == column]
    return {row: float(cell.replace(",", "")) for row, cell in zip(table.rows, found.cells(table.rows), strict=True)}


def test_filters_learn_and_find() -> None:
    examples, others = draw_examples([invented()], 200)
    filters = {
        "empty": Empty(),
        "length": Length(max_words=10),
        "completeness": Completeness(),
        "dictionary": Dictionary(),
    }
    table = measure(Cleaning(filters=filters), examples, others[0], LANGS, "A")
    assert cells(table, "pairs")[GOOD] == 200
    lost = 100 * sum(len(each.source.split()) > 10 for each in examples) / 200
    assert cells(table, "length")[GOOD] == cells(table, TOGETHER)[GOOD] == pytest.approx(lost, abs=0.06)
    assert cells(table, "dictionary")["misaligned: a target of the same length"] > 90
    assert cells(table, "completeness")["target cut to half"] > 80
    assert cells(table, TOGETHER)["a second sentence appended"] > 60


# Halves, mojibake, boilerplate, shifted lines, wrong language, copies: percent that all filters find, at least.
FOUND = {
    "misaligned: a target of the same length": 79,
    "misaligned: the next line's target": 59,
    "target copied from source": 100,
    "target in another language": 100,
    "target cut to half": 65,
    "source cut to half": 60,
    "boilerplate appended": 15,
    "UTF-8 read as Windows-1252": 99,
}


@pytest.mark.slow
def test_noise_in_real_text_is_found() -> None:
    sources = sorted(corpus("parallel/en-pl").glob("*.en"))
    texts = [
        [path.with_suffix(f".{lang}").read_text(encoding="utf-8").split("\n")[:8000] for lang in LANGS]
        for path in sources
    ]
    domains = [[Pair(*map(str.strip, pair)) for pair in zip(*sides, strict=True) if all(pair)] for sides in texts]
    examples, others = draw_examples(domains, 1500)
    cleaning = Cleaning(filters={key: kind() for key, kind in FILTERS.items()}, normalise=Normalise())
    learned_from = [pair for rest in others for pair in rest[:5000]]
    found = cells(measure(cleaning, examples, learned_from, LANGS, "en-pl"), TOGETHER)
    assert found[GOOD] < 1.7
    for noise, least in FOUND.items():
        assert found[noise] >= least, noise
