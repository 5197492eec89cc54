"""Every file in configs/ is an experiment: its systems and outputs parse through fairseq's own parsers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fairseq import options

from fairseq_ext.experiment.config import Corpora, ExperimentConfig, load_config
from fairseq_ext.experiment.runs import all_output_runs, baseline_of, domains_of, expand, systems_of
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.translation import how_to_make
from fairseq_ext.run_experiment import stages_of
from tests import toy

CONFIGS = sorted((Path(__file__).resolve().parents[1] / "configs").glob("**/*.yaml"))
# These prepare data and train nothing; tests/test_docs.py looks at data.yaml.
TRAINING = [path for path in CONFIGS if path.name not in ("data.yaml", "paper-base.yaml")]


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
    config = given_domains(path)
    for run in all_output_runs(config):
        arguments = ["data", *how_to_make(config, run).arguments, "--user-dir", toy.USER_DIR]
        parsed = options.parse_args_and_arch(options.get_generation_parser(), arguments)
        assert bool(parsed.domain_tags) == run.run.system.has_tags


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.name)
def test_stages_and_runs_are_well_named(path: Path) -> None:
    config = given_domains(path)
    names = [stage.name for stage in stages_of(config)]
    assert len(set(names)) == len(names)
    runs = [run.name for system in systems_of(config).values() for run in expand(system, 1, domains_of(config))]
    assert len(set(runs)) == len(runs)
    if all_output_runs(config):
        assert baseline_of(config)


def given_domains(path: Path) -> ExperimentConfig:
    """The experiment, where the folder of its corpora may be missing."""
    config = load_config(path)
    if config.corpora.folder is None:
        return config
    return dataclasses.replace(config, corpora=Corpora(domains={"LAW": ["x.{lang}"], "SUB": ["y.{lang}"]}))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_key_is_explained(path: Path) -> None:
    """Each line above a system's or output's own options has a comment, or belongs to a commented block."""
    for line in path.read_text(encoding="utf-8").splitlines():
        is_setting = line and not line.lstrip().startswith(("#", "-")) and line.startswith("  ") and line[2] != " "
        if is_setting and not line.rstrip().endswith(":"):
            assert "#" in line, f"{path.name}: {line}"
