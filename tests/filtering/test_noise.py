"""Every noise does what its name says, to all pairs that it can change, the same for a seed."""

import pytest

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.noise import NOISES, Sample, add_noise, draw_sample, misread
from fairseq_ext.inputs.errors import InputError

PAIRS = [
    Pair("We saw 12 red houses.", "Widzieliśmy 12 czerwonych domów."),
    Pair("The cat sleeps here", "Tu śpi kot"),
    Pair("Yes", "Tak"),
]
SAMPLE = Sample(PAIRS, [*PAIRS[1:], Pair("Yes", "Owszem")], "Wszelkie prawa zastrzeżone.")


def spoilt(noise: str, sample: Sample = SAMPLE) -> dict[int, Pair]:
    return dict(add_noise(sample))[noise]


@pytest.mark.parametrize(
    ("noise", "targets"),
    [
        ("misaligned: the next line's target", {0: "Tu śpi kot", 1: "Tak"}),  # one more translation is no noise
        ("sides swapped", {0: PAIRS[0].source, 1: PAIRS[1].source, 2: "Yes"}),
        ("target copied from source", {0: PAIRS[0].source, 1: PAIRS[1].source, 2: "Yes"}),
        ("target cut to a quarter", {0: "Widzieliśmy", 1: "Tu"}),
        ("target cut to half", {0: "Widzieliśmy 12", 1: "Tu śpi"}),
        ("boilerplate appended", {row: f"{pair.target} Wszelkie prawa zastrzeżone." for row, pair in enumerate(PAIRS)}),
        ("half of the target left in the source language", {0: "Widzieliśmy 12 12 red houses.", 1: "Tu sleeps here"}),
        ("a phrase repeated four times", {2: "Tak Tak Tak Tak"}),
        ("diacritics lost", {0: "Widzielismy 12 czerwonych domow.", 1: "Tu spi kot"}),
        ("numbers changed", {0: "Widzieliśmy 23 czerwonych domów."}),
        ("wrapped in HTML", {2: '<p class="text">Tak</p>'}),
        ("UTF-8 read as Windows-1252", {1: "Tu Å›pi kot"}),
        ("UTF-8 read as Latin-1", {1: "Tu Å pi kot"}),
    ],
)
def test_targets(noise: str, targets: dict[int, str]) -> None:
    found = {row: pair.target for row, pair in spoilt(noise).items()}
    assert targets.items() <= found.items()
    if noise.startswith(("misaligned", "target cut", "half", "numbers", "diacritics")):
        assert found.keys() == targets.keys()


def test_sources() -> None:
    assert {row: pair.source for row, pair in spoilt("source cut to half").items()} == {0: "We saw", 1: "The cat"}
    assert spoilt("sides swapped")[2] == Pair("Tak", "Yes")


@pytest.mark.parametrize("noise", ["misaligned: a random target", "misaligned: a target of the same length"])
def test_misaligned_targets_are_all_those_there_are(noise: str) -> None:
    found = spoilt(noise)
    assert sorted(pair.target for pair in found.values()) == sorted(pair.target for pair in PAIRS)
    assert all(pair.target != PAIRS[row].target for row, pair in found.items())


def test_a_second_sentence_is_another_pairs() -> None:
    for row, pair in spoilt("a second sentence appended").items():
        rest = pair.target.removeprefix(PAIRS[row].target + " ")
        assert rest in {other.target for other in PAIRS} - {PAIRS[row].target}


def test_every_noise_changes_something() -> None:
    assert all(found for _, found in add_noise(SAMPLE))
    assert [name for name, _ in add_noise(SAMPLE)] == list(NOISES)


def corpora() -> list[list[Pair]]:
    return [[Pair(f"{name} {n} a b", f"{name} {n} c d e") for n in range(size)] for name, size in (("x", 9), ("y", 99))]


def test_samples_are_even_and_apart_from_the_rest() -> None:
    sample, others = draw_sample(corpora(), 30)
    assert [sum(pair.source[0] == name for pair in sample.pairs) for name in "xy"] == [4, 26]
    assert not {*sample.pairs} & {pair for corpus in others for pair in corpus}
    assert len(sample) + sum(map(len, others)) == 108
    for pair, following in zip(sample.pairs, sample.following, strict=True):
        name, number, *_ = pair.source.split()
        assert following.source.startswith(f"{name} {int(number) + 1} ")
    assert sample.boilerplate in {pair.target for corpus in others for pair in corpus}


def test_samples_follow_from_the_seed() -> None:
    one, again, other = (draw_sample(corpora(), 20, seed=seed)[0] for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert list(add_noise(one)) == list(add_noise(again))


def test_short_pairs_are_left_to_learn_from() -> None:
    sample, others = draw_sample([[*PAIRS, *PAIRS]], 6)
    assert sample.pairs == [PAIRS[0]] or set(sample.pairs) <= set(PAIRS[:1])
    assert PAIRS[2] in others[0]
    with pytest.raises(InputError, match="no pair has 9 words or more on both sides"):
        draw_sample([PAIRS], 2, min_words=9)


def test_misread_text_is_what_import_leaves_of_it() -> None:
    assert misread("więcej łodzi", "latin-1") == "wiÄ cej Å odzi"
    assert misread("więcej", "cp1252") == "wiÄ™cej"
    assert misread("plain", "latin-1") == "plain"
