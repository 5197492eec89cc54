"""What filters need is learned from the corpora, and nothing else is."""

from pathlib import Path

import pytest

from fairseq_ext.engine.tasks import Engine
from fairseq_ext.filtering.cascade import Filter
from fairseq_ext.filtering.clean import Cleaning, clean_corpora
from fairseq_ext.filtering.completeness import LENGTHS_FILE, Completeness
from fairseq_ext.filtering.dictionary import DICTIONARY_FILE, SUPPORT_FILE, Dictionary
from fairseq_ext.filtering.filters import Empty, Length
from fairseq_ext.filtering.learn import has_to_learn, learn_from_corpora, learn_from_pairs, learning_options
from tests.filtering.test_clean import import_domains
from tests.filtering.test_model_1 import invented_pairs
from tests.filtering.test_word_list import write_list

LANGS = ("en", "pl")


@pytest.mark.parametrize(
    ("filters", "files"),
    [
        ({}, []),
        ({"completeness": Completeness()}, [LENGTHS_FILE]),
        ({"dictionary": Dictionary()}, [DICTIONARY_FILE, SUPPORT_FILE]),
        ({"dictionary": Dictionary(min_share=0.2, max_evidence=None)}, [DICTIONARY_FILE]),
        ({"dictionary": Dictionary(), "completeness": Completeness()}, [DICTIONARY_FILE, LENGTHS_FILE, SUPPORT_FILE]),
        ({"dictionary": Dictionary(word_list="words.tsv")}, [SUPPORT_FILE]),
        ({"dictionary": Dictionary(word_list="words.tsv", min_share=0.2, max_evidence=None)}, []),
    ],
)
def test_what_is_learned(
    filters: dict[str, Filter], files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_list(tmp_path, "s1\tt1\n")
    assert has_to_learn(filters) == bool(files)
    (tmp_path / "learned").mkdir()
    learn_from_pairs(tmp_path / "learned", invented_pairs(300), LANGS, Cleaning({"empty": Empty(), **filters}))
    assert sorted(path.name for path in (tmp_path / "learned").iterdir()) == files


def test_options_say_what_the_learned_depends_on() -> None:
    def options(**filters: Filter) -> object:
        return learning_options(Cleaning({"empty": Empty(), **filters}))

    usual = options(completeness=Completeness())
    assert options(completeness=Completeness(max_deviation=3.0)) == usual  # what is dropped later does not matter
    assert options(completeness=Completeness(), length=Length(max_words=9)) != usual
    assert options(completeness=Completeness(), dictionary=Dictionary()) != usual


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_corpora_are_cleaned_by_what_was_learned_from_them(workers: int, tmp_path: Path) -> None:
    pairs = [(f"{pair.source}.", f"{pair.target}.") for pair in invented_pairs(600)[:-1]]
    spoilt = [*pairs, ("the s1 s2 s3 s4.", "le t1")]
    corpora = import_domains(tmp_path, A=spoilt[:300], B=spoilt[300:])
    cleaning = Cleaning({"empty": Empty(), "completeness": Completeness(), "dictionary": Dictionary()})
    (tmp_path / "learned").mkdir()
    learn_from_corpora(tmp_path / "learned", corpora, ["A", "B"], LANGS, cleaning)
    (tmp_path / "clean").mkdir()
    clean_corpora(tmp_path / "clean", corpora, ["A", "B"], LANGS, cleaning, Engine(workers), tmp_path / "learned")
    kept = [(tmp_path / "clean" / f"{name}.pl").read_text(encoding="utf-8").splitlines() for name in ("A", "B")]
    assert kept == [[target for _, target in pairs[:300]], [target for _, target in pairs[300:]]]
    assert str(tmp_path) not in (tmp_path / "clean" / "report.json").read_text(encoding="utf-8")
