"""Every noise does what its name says, to all pairs that it can change; what is found and lost is counted right."""

import random

import pytest

from benchmarks.shared.noise import GOOD, TOGETHER, draw_examples, measure
from fairseq_ext.experiments.metrics.tables import Table
from fairseq_ext.text.cleaning.clean import FILTERS, Cleaning
from fairseq_ext.text.cleaning.completeness import Completeness
from fairseq_ext.text.cleaning.dictionary import Dictionary
from fairseq_ext.text.cleaning.filters import Empty, Length
from fairseq_ext.text.normalise import Normalise
from fairseq_ext.text.text_files import Pair
from tests.real_corpora import corpus

LANGS = ("en", "pl")


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
    filters = {"empty": Empty(), "length": Length(max_words=10)}
    filters |= {"completeness": Completeness(), "dictionary": Dictionary()}
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
        [path.with_suffix(f".{lang}").read_text(encoding="utf-8").split("\n")[:4000] for lang in LANGS]
        for path in sources
    ]
    domains = [[Pair(*map(str.strip, pair)) for pair in zip(*sides, strict=True) if all(pair)] for sides in texts]
    examples, others = draw_examples(domains, 600)
    cleaning = Cleaning(filters={key: kind() for key, kind in FILTERS.items()}, normalise=Normalise())
    learned_from = [pair for rest in others for pair in rest[:3000]]
    found = cells(measure(cleaning, examples, learned_from, LANGS, "en-pl"), TOGETHER)
    assert found[GOOD] < 1.7
    for noise, least in FOUND.items():
        assert found[noise] >= least, noise
