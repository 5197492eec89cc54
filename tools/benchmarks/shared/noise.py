"""Measure how much known noise filters detect, and how many good pairs they drop, for setting their limits.

Each kind of noise is applied to all pairs that it changes, so the detected share is exact. Pairs that it would not
change (numbers in a pair without digits) are not counted. Partners and phrases are determined by a seed.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.text.cleaning.clean import Cleaning, normalise_pairs
from fairseq_ext.text.cleaning.filters import Batch, Filter, run_filters
from fairseq_ext.text.cleaning.learn import has_to_learn, learn_from_pairs
from fairseq_ext.text.text_files import Pair, collapse

GOOD = "good pairs, lost"
TOGETHER = "all together"
# One sentence each in Czech, French, German, Italian, Spanish, Swedish, Russian and Turkish: most language pairs
# include at most one of these.
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
_BOILERPLATE_WORDS = range(5, 9)


@dataclass(frozen=True)
class Example:
    """A good pair, with material for corrupting it.

    Attributes:
        source: source of the pair.
        target: target of the pair.
        following: pair of the next line.
        other: another pair.
        alike: another pair, whose target has a similar length.
        boilerplate: sentence of the target language.
        foreign: sentence of another language.
    """

    source: str
    target: str
    following: Pair
    other: Pair
    alike: Pair
    boilerplate: str
    foreign: str


def draw_examples(
    corpora: Sequence[Sequence[Pair]], num_pairs: int, min_words: int = 4, seed: int = 1
) -> tuple[list[Example], list[list[Pair]]]:
    """Draw good pairs evenly from domains, and return the remaining pairs for learning.

    Args:
        corpora: pairs of each domain, in the corpus's order.
        num_pairs: total number of pairs; a small domain gives at most half of its pairs.
        min_words: minimum number of words on both sides.
        seed: random seed.

    Returns:
        The examples; and the remaining pairs of each domain in order, without pairs equal to an example.
    """
    generator = random.Random(seed)
    following: dict[Pair, Pair] = {}
    for number, corpus in enumerate(corpora):
        wanted = -(-(num_pairs - len(following)) // (len(corpora) - number))
        fitting = [row for row, pair in enumerate(corpus[:-1]) if min(map(_num_words, pair)) >= min_words]
        rows = generator.sample(fitting, min(wanted, len(corpus) // 2, len(fitting)))
        following |= {corpus[row]: corpus[row + 1] for row in sorted(rows)}
    if not following:
        raise InputError(f"--min-words: no pair has {min_words} words or more on both sides; lower it")
    others = [[pair for pair in corpus if pair not in following] for corpus in corpora]
    sentences = [pair.target for corpus in others for pair in corpus if _num_words(pair.target) in _BOILERPLATE_WORDS]
    boilerplate = generator.choice(sentences or [_FOREIGN[0]])
    pairs = list(following)
    random_order = generator.sample(pairs, len(pairs))
    partners, alike = _next_in(random_order), _next_in(sorted(pairs, key=lambda pair: _num_words(pair.target)))
    examples = [
        Example(*pair, following[pair], partners[pair], alike[pair], boilerplate, _FOREIGN[row % len(_FOREIGN)])
        for row, pair in enumerate(pairs)
    ]
    return examples, others


def choose_pairs(corpora: Sequence[Sequence[Pair]], num_pairs: int, seed: int) -> list[Pair]:
    """Draw pairs evenly from domains; use all pairs of domains with too few."""
    generator = random.Random(seed)
    share = num_pairs // len(corpora)
    return [pair for corpus in corpora for pair in generator.sample(list(corpus), min(share, len(corpus)))]


def _num_words(text: str) -> int:
    return len(text.split())


def _next_in(order: Sequence[Pair]) -> dict[Pair, Pair]:
    return dict(zip(order, [*order[1:], order[0]], strict=True))


def _cut(text: str, part: float) -> str:
    """Return the first words of a text; unchanged if none or all words would be left."""
    words = text.split()
    kept = round(part * len(words))
    return " ".join(words[:kept]) if 0 < kept < len(words) else text


def _half_untranslated(example: Example) -> str:
    source, target = example.source.split(), example.target.split()
    half = target[: len(target) // 2] + source[len(source) // 2 :]
    return " ".join(half) if min(len(source), len(target)) > 1 else example.target


def misread(text: str, encoding: str) -> str:
    """Decode UTF-8 in another encoding, and import it as text, which turns control characters into spaces."""
    characters = text.encode().decode(encoding, errors="replace")
    return collapse("".join(char if char.isprintable() else " " for char in characters))


def _shift_digits(text: str) -> str:
    return re.sub("[0-9]", lambda digit: str((int(digit[0]) + 1) % 10), text)


# Corruptions of the target.
_TARGETS: dict[str, Callable[[Example], str]] = {
    "misaligned: a random target": lambda each: each.other.target,
    "misaligned: a target of the same length": lambda each: each.alike.target,
    # Lists of sentences may have several translations of one sentence in a row.
    "misaligned: the next line's target": lambda each: (
        each.following.target if each.following.source != each.source else each.target
    ),
    "target copied from source": lambda each: each.source,
    "target in another language": lambda each: each.foreign,
    "target cut to half": lambda each: _cut(each.target, 0.5),
    "boilerplate appended": lambda each: f"{each.target} {each.boilerplate}",
    "a second sentence appended": lambda each: f"{each.target} {each.other.target}",
    "half of the target left in the source language": _half_untranslated,
    "UTF-8 read as Latin-1": lambda each: misread(each.target, "latin-1"),
    "UTF-8 read as Windows-1252": lambda each: misread(each.target, "cp1252"),
    "numbers changed": lambda each: _shift_digits(each.target),
    "wrapped in HTML": lambda each: f'<p class="text">{each.target}</p>',
}


def add_noise(examples: Sequence[Example]) -> dict[str, list[Pair]]:
    """Return the changed pairs for each kind of noise."""
    spoilt = {name: [(each, Pair(each.source, spoil(each))) for each in examples] for name, spoil in _TARGETS.items()}
    spoilt["source cut to half"] = [(each, Pair(_cut(each.source, 0.5), each.target)) for each in examples]
    spoilt["sides swapped"] = [(each, Pair(each.target, each.source)) for each in examples]
    return {
        name: [pair for each, pair in pairs if all(pair) and pair != (each.source, each.target)]
        for name, pairs in spoilt.items()
    }


def measure(
    cleaning: Cleaning, examples: Sequence[Example], learn_from: Sequence[Pair], langs: tuple[str, str], title: str
) -> Table:
    """Measure the share of good and corrupted pairs that each filter drops alone, and all filters together, in percent.

    Args:
        cleaning: cleaning options; duplicates are kept.
        examples: good pairs.
        learn_from: other pairs of the same corpora, from which filters learn.
        langs: source and target language.
        title: title of the table.
    """
    sets = {GOOD: [Pair(each.source, each.target) for each in examples], **add_noise(examples)}
    with tempfile.TemporaryDirectory() as folder:
        if has_to_learn(cleaning.filters):
            learn_from_pairs(Path(folder), learn_from, langs, cleaning)
        batches = {
            name: Batch(normalise_pairs(pairs, langs, cleaning.normalise), langs, Path(folder))
            for name, pairs in sets.items()
        }
        chains = {TOGETHER: cleaning.filters, **{name: {name: each} for name, each in cleaning.filters.items()}}
        columns = [_column(name, filters, batches) for name, filters in chains.items()]
    return Table(title, "noise", list(sets), [Column("pairs", lambda name: len(sets[name]), ","), *columns])


def _column(name: str, filters: Mapping[str, Filter], batches: Mapping[str, Batch]) -> Column:
    shares = {
        noise: 100 * len(run_filters(filters, batch)[1]) / max(1, len(batch.pairs)) for noise, batch in batches.items()
    }
    return Column(name, shares.get, ".1f")
