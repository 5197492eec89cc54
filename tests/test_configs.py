"""Every file in configs/ is an experiment: its systems and outputs parse through fairseq's own parsers."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq import options

from fairseq_ext.experiment.config import load_config
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.training import systems_of
from fairseq_ext.pipeline.translation import output_of, outputs_of
from tests import toy

CONFIGS = sorted((Path(__file__).resolve().parents[1] / "configs").glob("*.yaml"))
# data.yaml trains nothing; tests/test_docs.py looks at it.
TRAINING = [path for path in CONFIGS if path.name != "data.yaml"]


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.name)
def test_systems_parse(path: Path) -> None:
    config = load_config(path)
    systems = systems_of(config)
    assert systems
    for system in systems.values():
        arguments = ["data", "--task", "multi_domain_translation", "--user-dir", toy.USER_DIR]
        parsed = options.parse_args_and_arch(options.get_training_parser(), arguments + as_arguments(system.options))
        assert parsed.arch == system.options["arch"]
        assert system.uses_teacher == parsed.criterion.endswith("kd_gate")


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.name)
def test_outputs_parse(path: Path) -> None:
    config = load_config(path)
    for name in outputs_of(config):
        arguments = ["data", *output_of(config, name).arguments, "--user-dir", toy.USER_DIR]
        options.parse_args_and_arch(options.get_generation_parser(), arguments)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_key_is_explained(path: Path) -> None:
    """Each line above a system's or output's own options has a comment, or belongs to a commented block."""
    for line in path.read_text(encoding="utf-8").splitlines():
        is_setting = line and not line.lstrip().startswith(("#", "-")) and line.startswith("  ") and line[2] != " "
        if is_setting and not line.rstrip().endswith(":"):
            assert "#" in line, f"{path.name}: {line}"
