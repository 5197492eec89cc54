"""The experiment file is checked completely, and mistakes are named."""

from pathlib import Path

from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.sections import Evaluate, ReportOptions
from tests.small_corpus import write_config


def test_evaluation_has_defaults_and_may_be_empty(tmp_path: Path) -> None:
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path)).evaluate == Evaluate()
    empty = {"baseline": None, "comet": None, "ood": {}, "speed": []}
    assert load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=empty)).evaluate == Evaluate()
    given = {"ood": {"NEWS": "news.{lang}"}, "speed": ["mix"], "report": {"ablation": ["mix"]}}
    sections = {"train": {"systems": {"mix": {}}}, "translate": {"outputs": {"mix": {"system": "mix"}}}}
    evaluate = load_config(write_config(tmp_path / "c.yaml", tmp_path, evaluate=given, **sections)).evaluate
    assert evaluate == Evaluate(ood={"NEWS": "news.{lang}"}, speed=("mix",), report=ReportOptions(ablation=("mix",)))
