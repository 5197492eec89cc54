from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import load_config
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.training import systems_of, training_steps

CONFIG = """
work_dir: {root}
source_lang: en
target_lang: pl
corpora: {{folder: {root}}}
train:
  common: {{lr: 0.1, fp16: true, dropout: 0.2}}
  systems:
    mix: {{arch: transformer_tiny}}
    gad: {{from: mix, uses_teacher: true, arch: transformer_gated_adapter_tiny, dropout: 0.5}}
"""


def config_of(root: Path, text: str = CONFIG) -> Any:
    path = root / "experiment.yaml"
    path.write_text(text.format(root=root))
    return load_config(path)


def test_options_become_arguments() -> None:
    options = {"lr": 0.1, "fp16": True, "cpu": False, "patience": None, "adam_betas": "(0.9, 0.98)", "lrs": [1, 2]}
    assert as_arguments(options) == ["--lr", "0.1", "--fp16", "--adam-betas", "(0.9, 0.98)", "--lrs", "1", "2"]


def test_systems_inherit_the_common_options(tmp_path: Path) -> None:
    systems = systems_of(config_of(tmp_path))
    assert systems["mix"].options == {"lr": 0.1, "fp16": True, "dropout": 0.2, "arch": "transformer_tiny"}
    gad = systems["gad"]
    assert (gad.start, gad.uses_teacher, gad.options["dropout"]) == ("mix", True, 0.5)


def test_a_system_comes_after_the_one_it_starts_from(tmp_path: Path) -> None:
    steps = training_steps(config_of(tmp_path), "gad", ["--bf16"])
    assert [step.output.name for step in steps] == ["mix", "gad"]
    mix, gad = steps
    assert mix.options["extra"] == []
    assert gad.options["extra"] == ["--bf16"]
    assert gad.inputs == [
        tmp_path / "data-bin", tmp_path / "teacher", tmp_path / "systems/mix/checkpoint_best.pt",
    ]  # fmt: skip
    assert all(step.resumable for step in steps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("systems:", "sistems:"), "unknown key 'sistems'"),
        (("common: {{lr: 0.1, fp16: true, dropout: 0.2}}", "common: 3"), "train: common: expected keys and values"),
        (("from: mix", "from: max"), "gad: from: no system 'max'; there are mix, gad"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        systems_of(config_of(tmp_path, CONFIG.replace(*change)))


def test_an_unknown_system_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no 'tag'; there are mix, gad"):
        training_steps(config_of(tmp_path), "tag")
