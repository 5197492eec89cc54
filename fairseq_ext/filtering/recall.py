"""How much of each noise an experiment's filters find, and how many good pairs they cost."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.filtering.batch import Batch
from fairseq_ext.filtering.cascade import run_cascade
from fairseq_ext.filtering.clean import Cleaning, normalise_pairs, with_learned
from fairseq_ext.filtering.learn import has_to_learn, learn_from_pairs
from fairseq_ext.filtering.noise import Sample, add_noise
from fairseq_ext.inputs.errors import InputError

# Precision depends on how much noise there is.
SHARE_OF_NOISE = 0.1


@dataclass(frozen=True)
class Recall:
    """What filters drop.

    Attributes:
        num_good: good pairs.
        lost: of these, by filter what it dropped, in the order of the cascade.
        num_spoilt: by noise, the pairs that it changed.
        found: of these, by noise how many were dropped.
    """

    num_good: int
    lost: Mapping[str, int]
    num_spoilt: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def lost_share(self) -> float:
        """Share of the good pairs that were dropped."""
        return sum(self.lost.values()) / self.num_good

    def recall(self, noise: str) -> float:
        """Share of the pairs with this noise that were dropped; 0 if there are none."""
        return self.found[noise] / max(self.num_spoilt[noise], 1)

    def precision(self, noise: str) -> float:
        """Share of this noise among what would be dropped of a corpus with a tenth of it; 0 if nothing would be."""
        right, wrong = SHARE_OF_NOISE * self.recall(noise), (1 - SHARE_OF_NOISE) * self.lost_share
        return right / (right + wrong) if right else 0.0


def measure(cleaning: Cleaning, sample: Sample, learn_from: Sequence[Pair], langs: tuple[str, str]) -> Recall:
    """Filter good and spoilt pairs.

    Args:
        cleaning: what is done to them; nothing is de-duplicated.
        sample: the good pairs.
        learn_from: other pairs of the same corpora, for what the filters have to learn.
        langs: source and target language.
    """
    with tempfile.TemporaryDirectory() as name:
        if has_to_learn(cleaning.filters):
            learn_from_pairs(Path(name), learn_from, langs, cleaning)
            cleaning = with_learned(cleaning, Path(name))
        lost = _dropped(sample.pairs, langs, cleaning)
        counts = {
            noise: (len(rows), _dropped(list(rows.values()), langs, cleaning)) for noise, rows in add_noise(sample)
        }
    return Recall(
        len(sample),
        {name: lost[name] for name in cleaning.filters},
        {noise: number for noise, (number, _) in counts.items()},
        {noise: dropped.total() for noise, (_, dropped) in counts.items()},
    )


def choose_pairs(corpora: Sequence[Sequence[Pair]], num_pairs: int, seed: int) -> list[Pair]:
    """Draw pairs evenly from some domains, all of one that has too few."""
    generator = random.Random(seed)
    share = num_pairs // len(corpora)
    return [pair for corpus in corpora for pair in generator.sample(list(corpus), min(share, len(corpus)))]


def make_table(recalls: Mapping[str, Recall]) -> str:
    """Measurements on the same sample, side by side, as two tables in Markdown.

    Raises:
        InputError: if there is none.
    """
    if not recalls:
        raise InputError("no experiment to measure")
    first = next(iter(recalls.values()))
    columns = [f"{name}: {figure}" for name in recalls for figure in ("found", "precision")]
    rows = [["noise", "pairs", *columns]]
    for noise, number in first.num_spoilt.items():
        figures = [share for each in recalls.values() for share in (each.recall(noise), each.precision(noise))]
        rows.append([noise, f"{number:,}", *(f"{100 * share:.1f}" for share in figures)])
    lost = [["good pairs lost, in percent", *recalls], ["all"]]
    lost[1] += [f"{100 * each.lost_share:.2f}" for each in recalls.values()]
    for name in dict.fromkeys(name for each in recalls.values() for name in each.lost):
        shares = [100 * each.lost[name] / each.num_good if name in each.lost else None for each in recalls.values()]
        lost.append([f"`{name}`", *("–" if share is None else f"{share:.2f}" for share in shares)])
    return f"{_markdown(rows)}\n\n{_markdown(lost)}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|---|" + "---:|" * (len(rows[0]) - 1), *body])


def _dropped(pairs: Sequence[Pair], langs: tuple[str, str], cleaning: Cleaning) -> Counter[str]:
    outcome = run_cascade(cleaning.filters, Batch(normalise_pairs(pairs, langs, cleaning.normalise), langs))
    return Counter(name for name, _ in outcome.rejected.values())
