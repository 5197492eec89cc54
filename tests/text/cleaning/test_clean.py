"""Cleaning: every pair is accounted for, and who cleans which block makes no difference."""

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.base.hashing import hash_path
from fairseq_ext.base.jobs import JOBS_DIR, Engine, job_output
from fairseq_ext.text import blocks
from fairseq_ext.text.cleaning.clean import REPEATED, Cleaning, clean_block, clean_corpora, find_repeats, pair_keys
from fairseq_ext.text.cleaning.filters import Empty, Length, LengthRatio
from fairseq_ext.text.cleaning.tally import MAX_SAMPLES, Drop, Tally
from fairseq_ext.text.import_corpora import import_domain
from fairseq_ext.text.normalise import Normalise
from fairseq_ext.text.text_files import Pair, read_lines

LANGS = ("en", "pl")
FILTERS = {"empty": Empty(), "length": Length(max_words=5), "length_ratio": LengthRatio()}
CLEANING = Cleaning(filters=FILTERS, normalise=Normalise(), deduplicate="pair", write_rejected=True)


def import_domains(folder: Path, **domains: list[tuple[str, str]]) -> Path:
    """Import domains of the pairs given."""
    (folder / "raw").mkdir(parents=True)
    for name, pairs in domains.items():
        for side, lang in enumerate(LANGS):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (folder / "raw" / f"{name}.{lang}").write_text(text, encoding="utf-8")
        pattern = f"{folder / 'raw' / name}.{{lang}}"
        (folder / "corpora").mkdir(exist_ok=True)
        import_domain(folder / "corpora", name, [pattern], LANGS, on_bad_utf8="fail", downloads=folder)
    return folder / "corpora"


def _clean(corpora: Path, output: Path, workers: int = 1) -> Mapping[tuple[str, str], float]:
    """What is counted, by domain and metric."""
    output.mkdir(exist_ok=True)
    names = sorted(path.stem for path in corpora.glob("*.en"))
    tallies = clean_corpora(output, corpora, names, LANGS, CLEANING, Engine(workers=workers))
    return {(name, metric): value for name, tally in tallies.items() for metric, value in tally.counts.items()}


PAIRS = [
    ("A dog .", "Pies ."),  # 1
    ("", "Nic"),
    ("one two three four five six", "raz dwa trzy cztery pięć"),
    ("A  DOG .", "pies ."),  # repeats 1
    ("A cat « sat »", "Kot siedział"),  # 5
]


def test_every_pair_is_kept_or_rejected_with_a_reason(tmp_path: Path) -> None:
    report = _clean(import_domains(tmp_path, A=PAIRS), tmp_path / "clean")
    assert read_lines(tmp_path / "clean" / "A.en") == ["A dog .", 'A cat " sat "']
    assert read_lines(tmp_path / "clean" / "A.pl") == ["Pies .", "Kot siedział"]
    lines = read_lines(tmp_path / "clean" / "rejected" / "A.tsv.gz")
    header, *rows = [line.split("\t") for line in lines]
    assert tuple(header) == Drop._fields
    assert [row[:2] for row in rows] == [["2", "empty"], ["3", "length"], ["4", REPEATED]]
    assert rows[0][3:] == ["", "Nic"]
    assert rows[2][3:] == ["A DOG .", "pies ."]
    counts = {"pairs": 5, "kept": 2, "changed": 1, "dropped by empty": 1, "dropped by length": 1}
    assert {metric: report["A", metric] for metric in counts} == counts


@pytest.mark.slow
def test_neither_workers_nor_kills_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_PAIRS", 200)
    # Pairs are repeated from block to block, and bad ones are at the blocks' edges.
    words = [(number % 150, 9 if number % 200 in (0, 199) else 2 + number % 3) for number in range(450)]
    pairs = [(f"{first} " + "a " * count, f"{first} " + "b " * count) for first, count in words]
    large = import_domains(tmp_path / "large", A=pairs, B=pairs[:201])
    report = _clean(large, tmp_path / "once")
    # A repetition far away has been found, and one of the kept pairs is in the last block.
    assert report["A", f"dropped by {REPEATED}"] > 200
    assert report["A", "pairs"] == 450
    dropped = sum(value for (name, metric), value in report.items() if name == "A" and metric.startswith("dropped by"))
    assert report["A", "kept"] + dropped == report["A", "pairs"]
    numbered = [("A", 0), ("A", 1), ("A", 2), ("B", 0), ("B", 1)]
    # As kills leave it: some blocks finished, of another a part under a name of its own, the output half written.
    for index in (1, 4):
        output = job_output(tmp_path / "clean" / JOBS_DIR, index)
        output.mkdir(parents=True)
        clean_block(large, numbered, LANGS, CLEANING, None, index, output)
    (tmp_path / "clean" / JOBS_DIR / ".000002.host.1").mkdir()
    (tmp_path / "clean" / "A.en").write_text("half a li")
    _clean(large, tmp_path / "clean", workers=2)
    assert hash_path(tmp_path / "clean") == hash_path(tmp_path / "once")


FORMS = [Pair("A dog", "Pies"), Pair("a  DOG", "pies"), Pair("A dog", "Psy"), Pair("A dog 2", "Pies")]
FORMS += [Pair("A dogPies", ""), Pair("Straße", "ﬁn"), Pair("STRASSE", "fin")]


@pytest.mark.parametrize(("by", "expected"), [("pair", [1, 6]), ("source", [1, 2, 6]), ("target", [1, 3, 6])])
def test_what_repeats_follows_the_sides_compared(by: str, expected: list[int]) -> None:
    assert np.flatnonzero(find_repeats([pair_keys(FORMS, by)])).tolist() == expected


def test_cuts_and_buckets_do_not_matter() -> None:
    half = np.array([[1, 2], [1, 3], [1, 2]], dtype=np.uint64)
    assert find_repeats([half]).tolist() == [False, False, True]
    generator = random.Random(7)
    pairs = [Pair(str(generator.randrange(300)), "x") for _ in range(1000)]
    expected = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    keys = pair_keys(pairs, "pair")
    for cuts in ([], [0, 500, 500, 999]):
        for bucket_pairs in (2_000_000, 13):
            assert find_repeats(np.split(keys, cuts), bucket_pairs).tolist() == expected


def test_samples_are_few_and_do_not_depend_on_the_cut_into_blocks() -> None:
    drops = [Drop(line, "length", "", str(line), "x") for line in range(1, 500)]
    whole, cut = Tally({}), Tally({})
    whole.add_block({"pairs": 499, "changed": 0, "kept": 0}, drops)
    for start in range(0, 499, 7):
        cut.add_block({"pairs": 7, "changed": 0, "kept": 0}, drops[start : start + 7])
    lines = [drop.line for drop in whole.samples_of("length")]
    assert cut.samples_of("length") == whole.samples_of("length")
    assert len(lines) == MAX_SAMPLES
    assert lines == sorted(lines) != list(range(1, MAX_SAMPLES + 1))
