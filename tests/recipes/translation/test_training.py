from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.steps import print_plan, run_step
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.stages import training_steps

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


def test_options_of_a_command_line_count_for_that_run_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_of(tmp_path)
    (tmp_path / "data-bin").mkdir()
    [step] = training_steps(config, "mix", ["--fp16"])
    run_step(replace(step, build=lambda folder: (folder / "checkpoint_best.pt").touch()))
    print_plan(training_steps(config, "mix", ["--fp16"]))
    print_plan(training_steps(config, "mix"))
    assert capsys.readouterr().out.splitlines() == [
        f"up to date  {step.output}",
        f'build       {step.output} (command line was "--fp16", is "")',
    ]


def test_runs_of_several_seeds_share_the_steps_before_them(tmp_path: Path) -> None:
    text = CONFIG.replace("gad: {{", "gad: {{seeds: [3, 4], ")
    steps = training_steps(config_of(tmp_path, text), "gad")
    assert [step.output.name for step in steps] == ["mix", "gad@3", "gad@4"]
    assert [step.options["seed"] for step in steps] == [1, 3, 4]
    assert [step.output.name for step in training_steps(config_of(tmp_path, text), "gad@4")] == ["mix", "gad@4"]


def test_a_run_of_a_tuned_system_comes_after_the_trials_that_choose_for_it(tmp_path: Path) -> None:
    config = config_of(tmp_path, CONFIG.replace("gad: {{", "gad: {{seeds: [3, 4], tune: {{lr: [1, 2]}}, "))
    steps = training_steps(config, "gad@4", ["--bf16"])
    assert [step.output.name for step in steps] == ["mix", "gad.lr=1", "gad.lr=2", "gad@3", "gad@4"]
    _, one, two, _, last = steps
    assert [step.options["system"]["lr"] for step in (one, two)] == [1, 2]
    assert [step.options["extra"] for step in (one, two, last)] == [["--bf16"]] * 3
    # What the second seed is trained with is not known before.
    assert "lr" not in last.options["system"]
    assert last.inputs[-1] == tmp_path / "systems/gad@3/chosen.json"
    assert [step.output.name for step in training_steps(config, "gad")] == [step.output.name for step in steps]


def test_what_a_finished_directory_is_recognised_by_stays(tmp_path: Path) -> None:
    """Systems trained by earlier versions stay valid."""
    mix, gad = training_steps(config_of(tmp_path), "gad")
    common = {"lr": 0.1, "fp16": True, "dropout": 0.2}
    assert mix.options == {"system": {**common, "arch": "transformer_tiny"}, "extra": [], "seed": 1}
    own = {**common, "arch": "transformer_gated_adapter_tiny", "dropout": 0.5}
    assert gad.options == {"system": own, "extra": [], "seed": 1}


def test_every_domain_is_trained_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data-bin"
    folder.mkdir()
    (folder / "domains.txt").write_text("law\nmed\n")
    text = CONFIG.replace("gad: {{from: mix, uses_teacher: true", "ft: {{from: mix, per_domain: true")
    steps = training_steps(config_of(tmp_path, text), "ft")
    assert [step.output.name for step in steps] == ["mix", "ft@law", "ft@med"]
    assert [step.options["system"].get("train-domains") for step in steps] == [None, "law", "med"]
