"""What filters need is learned from the corpora, and nothing else is."""

from pathlib import Path

import pytest

from fairseq_ext.cleaning.clean import Cleaning, clean_corpora
from fairseq_ext.cleaning.completeness import LENGTHS_FILE, Completeness
from fairseq_ext.cleaning.dictionary import EVIDENCE_FILE, Dictionary
from fairseq_ext.cleaning.filters import Filter
from fairseq_ext.cleaning.learn import DICTIONARY_FILE, has_to_learn, learn_from_corpora, learn_from_pairs
from fairseq_ext.engine.tasks import Engine
from tests.cleaning.test_clean import import_domains
from tests.cleaning.test_model_1 import invented_pairs

LANGS = ("en", "pl")


@pytest.mark.parametrize(
    ("filters", "files"),
    [
        ({"completeness": Completeness()}, [LENGTHS_FILE]),
        ({"dictionary": Dictionary()}, [DICTIONARY_FILE, EVIDENCE_FILE, LENGTHS_FILE]),
        ({"dictionary": Dictionary(word_list="words.tsv")}, [DICTIONARY_FILE, EVIDENCE_FILE, LENGTHS_FILE]),
    ],
)
def test_what_is_learned(
    filters: dict[str, Filter], files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.tsv").write_text("s1\tt1\n", encoding="utf-8")
    assert has_to_learn(filters)
    (tmp_path / "learned").mkdir()
    learn_from_pairs(tmp_path / "learned", invented_pairs(300), LANGS, Cleaning(filters=filters))
    assert sorted(path.name for path in (tmp_path / "learned").iterdir()) == files
    if "dictionary" in filters:
        is_given = (tmp_path / "learned" / DICTIONARY_FILE).read_text(encoding="utf-8") == "s1\tt1\n"
        assert is_given == (filters["dictionary"] != Dictionary())


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
