"""What filters find: noise put into good pairs, by which their limits can be judged.

Every noise changes all pairs that it can change, so that its recall is known exactly; those that it would leave as
they are (numbers in a pair without digits) do not count. Which other pairs and phrases it takes follows from a seed.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fairseq_ext.corpora.text_files import Pair, collapse
from fairseq_ext.inputs.errors import InputError

# One sentence each of Czech, French, German, Italian, Spanish, Swedish, Russian and Turkish: few pairs of languages
# have more than one of these.
_FOREIGN = (
    "Včera večer jsme dlouho čekali na poslední vlak do města.",
    "Hier soir, nous avons longtemps attendu le dernier train pour la ville.",
    "Gestern Abend haben wir lange auf den letzten Zug in die Stadt gewartet.",
    "Ieri sera abbiamo aspettato a lungo l'ultimo treno per la città.",
    "Anoche esperamos mucho tiempo el último tren a la ciudad.",
    "I går kväll väntade vi länge på det sista tåget till staden.",
    "Вчера вечером мы долго ждали последнего поезда в город.",
    "Dün akşam şehre giden son treni uzun süre bekledik.",
)
# Letters that Unicode does not take apart.
_BASE_LETTERS = str.maketrans("łŁøØđĐıßæÆœŒ", "lLoOdDisaAoO")
_PHRASE_WORDS = 3
_REPEATS = 4
_BOILERPLATE_WORDS = range(5, 9)


@dataclass(frozen=True)
class Sample:
    """N good pairs to put noise into, and what is put in.

    Attributes:
        pairs: N different pairs.
        following: of each, the pair of the next line in its corpus.
        boilerplate: a sentence of the target language that is none of theirs.
        seed: another one draws other partners.
    """

    pairs: Sequence[Pair]
    following: Sequence[Pair]
    boilerplate: str
    seed: int = 1

    def __len__(self) -> int:
        return len(self.pairs)


def draw_sample(
    corpora: Sequence[Sequence[Pair]], num_pairs: int, min_words: int = 4, seed: int = 1
) -> tuple[Sample, list[list[Pair]]]:
    """Draw good pairs evenly from some domains, and give what is left of them to learn from.

    Args:
        corpora: by domain its pairs, in the corpus's order.
        num_pairs: of all domains together; a small domain gives at most half of its pairs.
        min_words: least number of words of both sides.
        seed: another one draws others.

    Returns:
        the sample; by domain the other pairs, in order, without any that equal one of the sample.

    Raises:
        InputError: if no pair can be drawn.
    """
    generator = random.Random(seed)
    following: dict[Pair, Pair] = {}
    for number, corpus in enumerate(corpora):
        wanted = -(-(num_pairs - len(following)) // (len(corpora) - number))
        fitting = [row for row, pair in enumerate(corpus[:-1]) if _least_words(pair) >= min_words]
        rows = generator.sample(fitting, min(wanted, len(corpus) // 2, len(fitting)))
        following |= {corpus[row]: corpus[row + 1] for row in sorted(rows)}
    if not following:
        raise InputError(f"no pair has {min_words} words or more on both sides; give a smaller --min-words")
    others = [[pair for pair in corpus if pair not in following] for corpus in corpora]
    sentences = [pair.target for corpus in others for pair in corpus if len(pair.target.split()) in _BOILERPLATE_WORDS]
    boilerplate = generator.choice(sentences or [_FOREIGN[0]])
    return Sample(list(following), list(following.values()), boilerplate, seed), others


def add_noise(sample: Sample) -> Iterator[tuple[str, dict[int, Pair]]]:
    """Yield every noise's name and, of the pairs that it changes, position and what becomes of them."""
    for name, spoil in NOISES.items():
        spoilt = spoil(sample)
        yield name, {row: pair for row, pair in enumerate(spoilt) if all(pair) and pair != sample.pairs[row]}


def _least_words(pair: Pair) -> int:
    return min(len(side.split()) for side in pair)


def _partners(sample: Sample) -> list[Pair]:
    """Of each pair another one of the sample."""
    order = list(range(len(sample)))
    random.Random(sample.seed).shuffle(order)
    partners = dict(zip(order, order[1:] + order[:1], strict=True))
    return [sample.pairs[partners[row]] for row in range(len(sample))]


def _random_target(sample: Sample) -> list[Pair]:
    return [Pair(pair.source, other.target) for pair, other in zip(sample.pairs, _partners(sample), strict=True)]


def _target_of_same_length(sample: Sample) -> list[Pair]:
    by_length = sorted(range(len(sample)), key=lambda row: (len(sample.pairs[row].target.split()), row))
    partners = dict(zip(by_length, by_length[1:] + by_length[:1], strict=True))
    return [Pair(pair.source, sample.pairs[partners[row]].target) for row, pair in enumerate(sample.pairs)]


def _target_of_next_line(sample: Sample) -> list[Pair]:
    # Lists of sentences may have several translations of one in a row.
    return [
        Pair(pair.source, other.target) if other.source != pair.source else pair
        for pair, other in zip(sample.pairs, sample.following, strict=True)
    ]


def _foreign_target(sample: Sample) -> list[Pair]:
    return [Pair(pair.source, _FOREIGN[row % len(_FOREIGN)]) for row, pair in enumerate(sample.pairs)]


def _second_sentence(sample: Sample) -> list[Pair]:
    return [
        Pair(pair.source, f"{pair.target} {other.target}")
        for pair, other in zip(sample.pairs, _partners(sample), strict=True)
    ]


def _target(change: Callable[[str], str]) -> Callable[[Sample], list[Pair]]:
    """The noise that changes every target by itself."""
    return lambda sample: [Pair(pair.source, change(pair.target)) for pair in sample.pairs]


def _cut(text: str, part: float) -> str:
    """The first words of a text, as it is if no word or no other were left."""
    words = text.split()
    kept = round(part * len(words))
    return " ".join(words[:kept]) if 0 < kept < len(words) else text


def _half_untranslated(sample: Sample) -> list[Pair]:
    sides = [(pair, pair.source.split(), pair.target.split()) for pair in sample.pairs]
    return [
        Pair(pair.source, " ".join(target[: len(target) // 2] + source[len(source) // 2 :]))
        if min(len(source), len(target)) > 1
        else pair
        for pair, source, target in sides
    ]


def _repeat_phrase(text: str) -> str:
    words = text.split()
    return " ".join(words + words[-_PHRASE_WORDS:] * (_REPEATS - 1))


def misread(text: str, encoding: str) -> str:
    """UTF-8 read in another encoding, and then imported, where control characters become spaces."""
    characters = text.encode().decode(encoding, errors="replace")
    return collapse("".join(char if char.isprintable() else " " for char in characters))


def _without_diacritics(text: str) -> str:
    plain = unicodedata.normalize("NFD", text.translate(_BASE_LETTERS))
    return "".join(char for char in plain if not unicodedata.combining(char))


def _shift_digits(text: str) -> str:
    return re.sub("[0-9]", lambda digit: str((int(digit[0]) + 1) % 10), text)


NOISES: dict[str, Callable[[Sample], list[Pair]]] = {
    "misaligned: a random target": _random_target,
    "misaligned: a target of the same length": _target_of_same_length,
    "misaligned: the next line's target": _target_of_next_line,
    "sides swapped": lambda sample: [Pair(pair.target, pair.source) for pair in sample.pairs],
    "target copied from source": lambda sample: [Pair(pair.source, pair.source) for pair in sample.pairs],
    "target in another language": _foreign_target,
    "target cut to a quarter": _target(lambda text: _cut(text, 0.25)),
    "target cut to half": _target(lambda text: _cut(text, 0.5)),
    "source cut to half": lambda sample: [Pair(_cut(pair.source, 0.5), pair.target) for pair in sample.pairs],
    "boilerplate appended": lambda sample: [
        Pair(pair.source, f"{pair.target} {sample.boilerplate}") for pair in sample.pairs
    ],
    "a second sentence appended": _second_sentence,
    "half of the target left in the source language": _half_untranslated,
    "a phrase repeated four times": _target(_repeat_phrase),
    "UTF-8 read as Latin-1": _target(lambda text: misread(text, "latin-1")),
    "UTF-8 read as Windows-1252": _target(lambda text: misread(text, "cp1252")),
    "diacritics lost": _target(_without_diacritics),
    "numbers changed": _target(_shift_digits),
    "wrapped in HTML": _target(lambda text: f'<p class="text">{text}</p>'),
}
