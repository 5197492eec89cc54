"""The experiment file is checked completely, and mistakes are named."""

from pathlib import Path

import pytest
import yaml
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import Evaluate, Report

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.teacher.options import TfidfTeacher, TransformersTeacher
from tests.small_corpus import write_config

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def test_quickstart_has_seven_domains_and_every_key() -> None:
    config = load_config(CONFIGS / "quickstart.yaml")
    assert config.corpora.domains is not None
    assert len(config.corpora.domains) == 7
    assert config.teacher == TfidfTeacher(folds=4)
    raw = yaml.safe_load((CONFIGS / "quickstart.yaml").read_text())
    off = {"subword_ngrams", "subword_model"}
    assert set(raw["teacher"]) == set(TfidfTeacher.__dataclass_fields__) - off


def test_evaluation_has_defaults_and_may_be_empty(tmp_path: Path) -> None:
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path)).evaluate == Evaluate()
    empty = {"baseline": None, "comet": None, "ood": {}, "speed": []}
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=empty)).evaluate == Evaluate()
    given = {"ood": {"NEWS": "news.{lang}"}, "speed": ["mix"], "report": {"examples": 0}}
    sections = {"train": {"systems": {"mix": {}}}, "translate": {"outputs": {"mix": {"system": "mix"}}}}
    evaluate = load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=given, **sections)).evaluate
    report = Report(main=["mix"], examples=0)
    assert evaluate == Evaluate("mix", ood={"NEWS": "news.{lang}"}, speed=["mix"], report=report)


def test_number_without_a_dot_is_a_number(tmp_path: Path) -> None:
    teacher = {"backend": "transformers", "model": "some/folder", "epochs": 1}
    path = write_config(tmp_path / "c.yaml", tmp_path, teacher=teacher)
    path.write_text(path.read_text().replace("epochs: 1", "epochs: 1\n  learning_rate: 1e-5"))
    read = load_config(path).teacher
    assert isinstance(read, TransformersTeacher)
    assert (read.learning_rate, read.epochs) == (1e-5, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sede": 1},
            r"c\.yaml: unknown key 'sede'; allowed are clean, corpora, evaluate, seed, source_lang, split, "
            r"subwords, target_lang, teacher, train, translate, work_dir$",
        ),
        ({"systems": {}}, r"unknown key 'systems'"),
        ({"train": {"anything": [1]}}, r"train: unknown key 'anything'; allowed are common, systems"),
        ({"path": "x"}, r"unknown key 'path'"),
        ({"split": {"vaild": 3}}, r"c\.yaml: split: unknown key 'vaild'; allowed are max_words, test, valid"),
        ({"split": {"valid": "many"}}, r"split: valid: expected a whole number, got 'many'"),
        ({"split": {"valid": True}}, r"split: valid: expected a whole number, got True"),
        ({"split": {"valid": 0}}, r"split: valid: 0 is too small"),
        ({"split": [3]}, r"split: expected keys and values"),
        ({"target_lang": False}, r"target_lang: expected text \(in quotes\), got False"),
        ({"target_lang": "en"}, r"target_lang: 'en' is also the source_lang"),
        ({"target_lang": "a/b"}, r"target_lang: 'a/b' is no code of a language"),
        ({"source_lang": "{lang}"}, r"source_lang: '\{lang\}' is no code of a language"),
        ({"corpora": {}}, r"corpora: give either folder or domains"),
        ({"corpora": {"domains": {"a b": ["x"]}}}, r"'a b' is no domain name"),
        ({"corpora": {"domains": {"a": []}}}, r"corpora: domains: a: expected a list"),
        ({"teacher": {"backend": "oracle"}}, r"teacher: backend: 'oracle' is unknown; choose one of tfidf"),
        ({"teacher": {"backend": "transformers"}}, r"teacher: the key 'model' is missing"),
        ({"teacher": {"epochs": 2}}, r"teacher: unknown key 'epochs'"),
        ({"teacher": {"folds": 1}}, r"teacher: folds: 1 is too small; give 2"),
        ({"subwords": {"vocab_size": 2_000_000_000}}, r"subwords: vocab_size"),
        ({"subwords": {"character_coverage": 99.5}}, r"subwords: character_coverage"),
        ({"evaluate": {"base": "mix"}}, r"evaluate: unknown key 'base'; allowed are baseline, comet,"),
        ({"evaluate": {"resamples": 0}}, r"evaluate: resamples: 0 is too small"),
        ({"evaluate": {"metrics": ["chrf"]}}, r"metrics: 'chrf' is unknown; choose one of chrF, chrF\+\+, BLEU, TER"),
        (
            {"evaluate": {"metrics": ["COMET"]}},
            r"evaluate: metrics: COMET needs a model; name that under evaluate: com",
        ),
        ({"evaluate": {"ood": ["a"]}}, r"evaluate: ood: expected keys and values"),
        ({"evaluate": {"ood": {"a b": "x.{lang}"}}}, r"evaluate: ood: 'a b' is no domain name"),
        ({"evaluate": {"report": {"example": 1}}}, r"evaluate: report: unknown key 'example'; allowed are"),
        ({"evaluate": {"report": {"examples": -1}}}, r"evaluate: report: examples: -1 is too small"),
        ({"evaluate": {"resamples": 1 << 40}}, r"evaluate: resamples: 1099511627776 is too large"),
        ({"teacher": {"backend": ["tfidf"]}}, r"teacher: backend: \['tfidf'\] is unknown; choose one of tfidf"),
        ({"teacher": {"inverse_regularisation": "1e400"}}, r"inverse_regularisation: expected a number, got '1e400'"),
        ({"teacher": {"inverse_regularisation": "nan"}}, r"inverse_regularisation: expected a number, got 'nan'"),
        ({"train": {False: 1}}, r"train: the key False is no text; put it in quotes"),
        ({"corpora": {"domains": {1: ["x"]}}}, r"corpora: domains: the key 1 is no text"),
        (
            {"clean": {"filters": {"long_words": {"max_characters": 5_000_000_000}}}},
            r"max_characters: 5000000000 makes no",
        ),
        ({"source_lang": "../en"}, r"source_lang: '../en' is no code of a language"),
        ({"target_lang": "a b"}, r"target_lang: 'a b' is no code of a language"),
        ({"seed": "2020-13-45"}, r"seed: expected a whole number, got '2020-13-45'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(write_config(tmp_path / "c.yaml", tmp_path, **changes))
