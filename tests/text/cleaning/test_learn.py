"""What filters need is learned from the corpora, word translations by model 1, the same in every process."""

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import Engine
from fairseq_ext.text.cleaning.clean import Cleaning, clean_corpora
from fairseq_ext.text.cleaning.completeness import LENGTHS_FILE, Completeness
from fairseq_ext.text.cleaning.dictionary import EVIDENCE_FILE, Dictionary
from fairseq_ext.text.cleaning.learn import DICTIONARY_FILE, learn_dictionary, learn_from_corpora, learn_from_pairs
from fairseq_ext.text.text_files import Pair
from tests.text.cleaning.test_clean import import_domains

LANGS = ("en", "pl")
WORDS = 200


def invented_pairs(count: int, seed: int = 1) -> list[Pair]:
    """Every source word ``s7`` has the translation ``t7``; ``the`` and ``le`` are everywhere, ``rare`` is once."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        numbers = rng.sample(range(WORDS), 4)
        shuffled = rng.sample(numbers, 4)
        pairs.append(Pair("the " + " ".join(f"s{n}" for n in numbers), "le " + " ".join(f"t{n}" for n in shuffled)))
    return [*pairs, Pair("rare s0", "rarissime t0")]


def test_a_given_word_list_is_used(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("s1\tt1\n", encoding="utf-8")
    (tmp_path / "learned").mkdir()
    filters = {"dictionary": Dictionary(word_list=str(tmp_path / "words.tsv"))}
    learn_from_pairs(tmp_path / "learned", invented_pairs(300), LANGS, Cleaning(filters=filters))
    files = sorted(path.name for path in (tmp_path / "learned").iterdir())
    assert files == [DICTIONARY_FILE, EVIDENCE_FILE, LENGTHS_FILE]
    assert (tmp_path / "learned" / DICTIONARY_FILE).read_text(encoding="utf-8") == "s1\tt1\n"


def test_corpora_are_cleaned_by_what_was_learned_from_them(tmp_path: Path) -> None:
    pairs = [(f"{pair.source}.", f"{pair.target}.") for pair in invented_pairs(600)[:-1]]
    spoilt = [*pairs, ("the s1 s2 s3 s4.", "le t1")]
    corpora = import_domains(tmp_path, A=spoilt[:300], B=spoilt[300:])
    cleaning = Cleaning(filters={"completeness": Completeness(), "dictionary": Dictionary()})
    (tmp_path / "learned").mkdir()
    learn_from_corpora(tmp_path / "learned", corpora, ["A", "B"], LANGS, cleaning)
    (tmp_path / "clean").mkdir()
    clean_corpora(tmp_path / "clean", corpora, ["A", "B"], LANGS, cleaning, Engine(workers=1), tmp_path / "learned")
    kept = [(tmp_path / "clean" / f"{name}.pl").read_text(encoding="utf-8").splitlines() for name in ("A", "B")]
    assert kept == [[target for _, target in pairs[:300]], [target for _, target in pairs[300:]]]


def learn(pairs: Sequence[Pair], path: Path) -> list[tuple[str, str, float]]:
    learn_dictionary(pairs, path)
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [(source, target, float(value)) for source, target, value in rows]


def model_1(pairs: Sequence[tuple[set[str], set[str]]], allowed: set[tuple[str, str]], iterations: int = 6) -> dict:
    """P(target | source) as in Brown et al. (1993), word by word."""
    weights = dict.fromkeys(sorted(allowed), 1.0)
    for _ in range(iterations):
        totals: dict[str, float] = defaultdict(float)
        for (source, _), weight in weights.items():
            totals[source] += weight
        given = {(one, other): weight / totals[one] for (one, other), weight in weights.items()}
        weights = dict.fromkeys(weights, 0.0)
        for sources, targets in pairs:
            for target in sorted(targets):
                meeting = [(source, target) for source in sorted(sources) if (source, target) in allowed]
                total = sum(given[key] for key in meeting)
                for key in meeting:
                    weights[key] += given[key] / total
    return given


def test_probabilities_are_those_of_model_1(tmp_path: Path) -> None:
    # Sixty words a side, so loosely tied that many pairs of words keep some probability.
    rng = random.Random(5)
    drawn = [sorted({min(int(rng.expovariate(0.06)), 59) for _ in range(3)}) for _ in range(400)]
    pairs = [
        Pair(" ".join(f"s{n}" for n in numbers), " ".join(f"t{n // 2 * 2 + rng.randrange(2)}" for n in numbers))
        for numbers in drawn
    ]
    sets = [(set(one.split()), set(other.split())) for one, other in sorted(set(pairs))]
    counts = [Counter(word for pair in sets for word in pair[side]) for side in range(2)]
    telling = [{word for word, n in counts[side].items() if 2 <= n <= len(sets) / 20} for side in range(2)]
    sets = [(one & telling[0], other & telling[1]) for one, other in sets]
    together = Counter((source, target) for one, other in sets for source in one for target in other)
    allowed = {
        (source, target)
        for (source, target), n in together.items()
        if n >= 2 and n * len(sets) >= 3 * counts[0][source] * counts[1][target]
    }
    forward = model_1(sets, allowed)
    backward = model_1([(other, one) for one, other in sets], {(target, source) for source, target in allowed})
    expected = {key: math.sqrt(forward[key] * backward[key[::-1]]) for key in allowed}

    rows = {(source, target): value for source, target, value in learn(pairs, tmp_path / "list.tsv")}
    assert rows == pytest.approx({key: value for key, value in expected.items() if value >= 0.03}, abs=0.0006)
    assert len(rows) > 50
    assert min(rows.values()) < 0.4


def test_blocks_and_chunks_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = invented_pairs(300)
    whole = learn(pairs, tmp_path / "whole.tsv")
    monkeypatch.setattr("fairseq_ext.text.cleaning.learn._WORDS_A_BLOCK", 7)
    monkeypatch.setattr("fairseq_ext.text.cleaning.learn._ENTRIES_A_CHUNK", 7)
    assert learn(pairs, tmp_path / "cut.tsv") == whole


@pytest.mark.parametrize("pairs", [[], [Pair(f"s{n}", f"t{n}") for n in range(99)]])
def test_nothing_to_learn_is_an_error(tmp_path: Path, pairs: list[Pair]) -> None:
    with pytest.raises(InputError, match=f"dictionary: {len(pairs)} pairs"):
        learn_dictionary(pairs, tmp_path / "list.tsv")
