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
