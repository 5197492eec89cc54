"""The stages of an experiment: which there are, which run, and what they say when one is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb


def test_mistakes_in_late_stages_are_named_before_anything_runs(tmp_path: Path) -> None:
    path = experiment_file(tmp_path, evaluate={"ood": {"NEWS": "nowhere.{lang}"}})
    with pytest.raises(InputError, match=r"NEWS: nowhere.en: not found"):
        verb("run")([str(path), "--to", "translate"])
    assert not (tmp_path / "work").exists()


def test_one_domain_has_no_classifier_and_nothing_that_needs_one(tmp_path: Path) -> None:
    one = {"domains": {"bank": [f"{write_corpora(tmp_path / 'corpora')}/bank.{{lang}}"]}}
    systems = {"mix": {"arch": "transformer_tiny"}, "ad": {"from": "mix", "arch": "transformer_domain_adapter_tiny"}}
    told = experiment_file(
        tmp_path, corpora=one, train={"systems": systems}, translate={"outputs": {"ad": {"system": "ad"}}}
    )
    verb("run")([str(told), "--dry-run"])
    by_classifier = {"ad": {"system": "ad", "domain-source": "classifier"}}
    path = experiment_file(tmp_path, corpora=one, train={"systems": systems}, translate={"outputs": by_classifier})
    with pytest.raises(InputError, match="translate: outputs: ad: needs a classifier of domains, but there is one"):
        verb("run")([str(path)])
    with pytest.raises(InputError, match="train: systems: gad: needs a classifier of domains, but there is one"):
        verb("run")([str(experiment_file(tmp_path, corpora=one))])
    assert not (tmp_path / "work").exists()


def experiment_file(root: Path, **changes: Any) -> Path:
    tiny = {"mix": "transformer_tiny", "gad": "transformer_gated_adapter_tiny"}
    systems = {"mix": {"arch": tiny["mix"]}, "gad": {"from": "mix", "uses_teacher": True, "arch": tiny["gad"]}}
    outputs = {"mix": {"system": "mix"}, "gad": {"system": "gad"}}
    sections = {"train": {"systems": systems}, "translate": {"outputs": outputs}}
    return write_config(root / "c.yaml", write_corpora(root / "corpora"), **{**sections, **changes})
