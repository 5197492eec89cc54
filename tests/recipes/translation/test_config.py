"""The experiment file is checked completely, and mistakes are named."""

from pathlib import Path

import pytest

from fairseq_ext.cleaning.normalise import Normalise
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.config import Evaluate, ReportOptions, load_config
from tests.small_corpus import write_config

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def test_evaluation_has_defaults_and_may_be_empty(tmp_path: Path) -> None:
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path)).evaluate == Evaluate()
    empty = {"baseline": None, "comet": None, "ood": {}, "speed": []}
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=empty)).evaluate == Evaluate()
    given = {"ood": {"NEWS": "news.{lang}"}, "speed": ["mix"], "report": {"main": ["mix"]}}
    sections = {"train": {"systems": {"mix": {}}}, "translate": {"outputs": {"mix": {"system": "mix"}}}}
    evaluate = load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=given, **sections)).evaluate
    assert evaluate == Evaluate(ood={"NEWS": "news.{lang}"}, speed=("mix",), report=ReportOptions(main=("mix",)))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sede": 1}, "'sede'"),
        ({"train": {"anything": [1]}}, "train: "),
        ({"train": {"systems": {"gad": {"label_noise": 0.1}}}}, "train: systems: gad: label_noise: "),
        ({"split": {"vaild": 3}}, "split: unknown key 'vaild'"),
        ({"split": {"valid": True}}, "split: valid: "),
        ({"split": {"valid": 0}}, "split: valid: "),
        ({"target_lang": "en"}, "target_lang: "),
        ({"source_lang": "../en"}, "source_lang: "),
        ({"corpora": {}}, "corpora: "),
        ({"corpora": {"domains": {"a b": ["x"]}}}, "corpora: domains: "),
        ({"teacher": {"backend": "oracle"}}, "teacher: backend: "),
        ({"teacher": {"backend": "transformers"}}, "teacher: model: is missing"),
        ({"teacher": {"folds": 1}}, "teacher: folds: "),
        ({"subwords": {"character_coverage": 99.5}}, "subwords: character_coverage: "),
        ({"evaluate": {"metrics": ["chrf"]}}, "evaluate: metrics: "),
        ({"evaluate": {"metrics": ["COMET"]}}, "evaluate: metrics: "),
        ({"evaluate": {"ood": {"a b": "x.{lang}"}}}, "evaluate: ood: "),
        ({"evaluate": {"ood": {"AVG": "x.{lang}"}}}, "evaluate: ood: "),
        ({"evaluate": {"domain_switch": 3, "tests": {"JOINED": "x.{lang}"}}}, "evaluate: tests: "),
        ({"evaluate": {"tests": {"A": {"domain": "bank"}}}}, "evaluate: tests: A: corpus: is missing"),
        ({"evaluate": {"tests": {"A": "a.{lang}"}, "ood": {"A": "b.{lang}"}}}, "evaluate: tests: A: "),
        ({"evaluate": {"report": {"example": 1}}}, "evaluate: report: unknown key 'example'"),
        ({"clean": {"filters": {"long_words": {"max_characters": 0}}}}, "filters: long_words: max_char"),
        ({"clean": {"normalise": {"unicode": "NFX"}}}, "clean: normalise: unicode: "),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, changes: dict, key: str) -> None:
    with pytest.raises(InputError) as raised:
        load_config(write_config(tmp_path / "c.yaml", tmp_path, **changes))
    assert str(raised.value).startswith(f"{tmp_path}/c.yaml: ")
    assert key in str(raised.value)


def test_filters_are_in_the_order_of_the_cascade(tmp_path: Path) -> None:
    clean = {"filters": {"identical": None, "length": {"max_words": 50}}, "normalise": None, "deduplicate": "pair"}
    cleaning = load_config(write_config(tmp_path / "c.yaml", tmp_path, clean=clean)).cleaning
    assert list(cleaning.filters) == ["empty", "length", "identical"]
    assert cleaning.normalise == Normalise()
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path)).cleaning.normalise is None
