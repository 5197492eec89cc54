"""The experiment file is checked completely, and mistakes are named."""

from pathlib import Path

import pytest
import yaml

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import Evaluate, Report, TfidfTeacher, TransformersTeacher, load_config
from fairseq_ext.experiment.yaml_sections import load_yaml
from tests.small_corpus import write_config

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_quickstart_has_seven_domains_and_every_key() -> None:
    config = load_config(CONFIGS / "quickstart.yaml")
    assert config.corpora.domains is not None
    assert len(config.corpora.domains) == 7
    assert config.teacher == TfidfTeacher(folds=4)
    raw = yaml.safe_load((CONFIGS / "quickstart.yaml").read_text())
    assert set(raw["teacher"]) == set(TfidfTeacher.__dataclass_fields__)


def test_sections_of_the_training_commands_are_handed_on(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path / "c.yaml", tmp_path, train={"anything": [1]}))
    assert config.train == {"anything": [1]}
    assert config.translate == {}


def test_evaluation_has_defaults_and_may_be_empty(tmp_path: Path) -> None:
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path)).evaluate == Evaluate()
    empty = {"baseline": None, "comet": None, "ood": {}, "speed": []}
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=empty)).evaluate == Evaluate()
    given = {"ood": {"NEWS": "news.{lang}"}, "speed": ["mix"], "report": {"examples": 0}}
    evaluate = load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=given)).evaluate
    assert evaluate == Evaluate(ood={"NEWS": "news.{lang}"}, speed=["mix"], report=Report(examples=0))


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
        ({"sede": 1}, r"c\.yaml: unknown key 'sede'; allowed are clean, corpora, evaluate, seed,"),
        ({"path": "x"}, r"unknown key 'path'"),
        ({"split": {"vaild": 3}}, r"c\.yaml: split: unknown key 'vaild'; allowed are max_words, test, valid"),
        ({"split": {"valid": "many"}}, r"split: valid: expected a whole number, got 'many'"),
        ({"split": {"valid": True}}, r"split: valid: expected a whole number, got True"),
        ({"split": {"valid": 0}}, r"split: valid: 0 is too small"),
        ({"split": [3]}, r"split: expected keys and values"),
        ({"target_lang": False}, r"target_lang: expected text \(in quotes\), got False"),
        ({"target_lang": "en"}, r"target_lang: 'en' is also the source_lang"),
        ({"corpora": {}}, r"corpora: give either folder or domains"),
        ({"corpora": {"domains": {"a b": ["x"]}}}, r"'a b' is no domain name"),
        ({"corpora": {"domains": {"a": []}}}, r"corpora: domains: a: expected a list"),
        ({"teacher": {"backend": "oracle"}}, r"teacher: backend: 'oracle' is unknown; choose one of tfidf"),
        ({"teacher": {"backend": "transformers"}}, r"teacher: the key 'model' is missing"),
        ({"teacher": {"epochs": 2}}, r"teacher: unknown key 'epochs'"),
        ({"teacher": {"folds": 1}}, r"teacher: folds: 1 is too small; give 2"),
        ({"subwords": {"character_coverage": 99.5}}, r"character_coverage: SentencePiece takes 0.98 to 1.0"),
        ({"evaluate": {"base": "mix"}}, r"evaluate: unknown key 'base'; allowed are baseline, comet,"),
        ({"evaluate": {"resamples": 0}}, r"evaluate: resamples: 0 is too small"),
        ({"evaluate": {"ood": ["a"]}}, r"evaluate: ood: expected keys and values"),
        ({"evaluate": {"ood": {"a b": "x.{lang}"}}}, r"evaluate: ood: 'a b' is no domain name"),
        ({"evaluate": {"report": {"example": 1}}}, r"evaluate: report: unknown key 'example'; allowed are"),
        ({"evaluate": {"report": {"examples": -1}}}, r"evaluate: report: examples: -1 is too small"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(write_config(tmp_path / "c.yaml", tmp_path, **changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [("seed: 1\nseed: 2\n", "repeated key 'seed'"), ("seed: [", "is not valid YAML"), ("", "expected keys")],
)
def test_broken_yaml_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        load_config(tmp_path / "c.yaml")
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "missing.yaml")


def test_merged_keys_may_be_changed(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("a: &a {x: 1, y: 2}\nb: &b\n  <<: *a\n  y: 3\nc:\n  <<: *b\n  y: 4\n")
    assert load_yaml(tmp_path / "c.yaml") == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 4}}
