"""Every file in configs/ is an experiment: its systems and outputs parse through fairseq's own parsers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fairseq import options

from fairseq_ext.domains.domain_tree import read_tree
from fairseq_ext.experiment.classification import (
    roberta_runs_of,
    roberta_systems_of,
    sweep_runs_of,
    task_runs_of,
)
from fairseq_ext.experiment.classification_config import load_classification_config
from fairseq_ext.experiment.config import Corpora, ExperimentConfig, load_config
from fairseq_ext.experiment.language_models import all_lm_runs, language_model_of, trees_of
from fairseq_ext.experiment.lm_config import load_lm_config
from fairseq_ext.experiment.runs import all_output_runs, baseline_of, domains_of, expand, systems_of
from fairseq_ext.experiment.word_lm_config import combination_of, load_word_lm_config, word_runs_of
from fairseq_ext.gpt2.convert import _OPTIONS as GPT2_OPTIONS
from fairseq_ext.pipeline.classification_training import BASE_ARGUMENTS, task_arguments
from fairseq_ext.pipeline.fairseq_cli import as_arguments
from fairseq_ext.pipeline.translation import how_to_make
from fairseq_ext.pipeline.word_lm_training import TASK as WORD_LM_TASK
from fairseq_ext.preparation.task_data import TaskFacts, write_task_facts
from fairseq_ext.run_classification_experiment import classification_stages_of
from fairseq_ext.run_dagru_experiment import word_lm_stages_of
from fairseq_ext.run_experiment import stages_of
from fairseq_ext.run_lm_experiment import lm_stages_of
from tests import toy

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted((ROOT / "configs").glob("**/*.yaml"))
LANGUAGE_MODELS = [path for path in CONFIGS if path.parent.name in ("hier", "topics")]
CLASSIFIERS = [path for path in CONFIGS if path.parent.name == "houlsby"]
WORD_LANGUAGE_MODELS = [path for path in CONFIGS if path.parent.name == "dagru"]
# Two prepare data and train nothing; tests/test_docs.py looks at data.yaml.
NOT_TRAINING = ("data.yaml", "paper-base.yaml")
_OTHERS = LANGUAGE_MODELS + CLASSIFIERS + WORD_LANGUAGE_MODELS
TRAINING = [path for path in CONFIGS if path.name not in NOT_TRAINING and path not in _OTHERS]


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


@pytest.mark.parametrize("path", LANGUAGE_MODELS, ids=lambda path: path.name)
def test_language_models_parse(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the trees' paths are relative to it
    config = load_lm_config(path)
    names = [stage.name for stage in lm_stages_of(config)]
    assert len(set(names)) == len(names)
    for run in all_lm_runs(config):
        model = language_model_of(config, run.name)
        if model.checkpoint:
            continue
        arguments = ["data", "--task", "multi_domain_language_modeling", "--user-dir", toy.USER_DIR]
        parser = options.get_training_parser("multi_domain_language_modeling")
        parsed = options.parse_args_and_arch(parser, arguments + as_arguments(model.system.options))
        assert parsed.arch == model.system.options["arch"]
        assert (getattr(parsed, "adapters", None) or "tree") == (model.adapters or "tree")
        assert parsed.tokens_per_sample == model.tokens_per_sample
        if config.subwords.gpt2:  # or it would read GPT-2's weights as another model's
            assert {name: getattr(parsed, name) for name in GPT2_OPTIONS} == GPT2_OPTIONS
            assert (parsed.decoder_embed_dim, parsed.decoder_layers, parsed.max_target_positions) == (768, 12, 1024)
    for tree in trees_of(config).values():
        assert tree.is_induced or read_tree(tree.path).mean_path_length == 3


@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.name)
def test_classifiers_parse(path: Path, tmp_path: Path) -> None:
    config = load_classification_config(path)
    names = [stage.name for stage in classification_stages_of(config)]
    assert len(set(names)) == len(names)
    write_task_facts(tmp_path, TaskFacts("classification", ["a", "b"], 2, {"train": 100}, {}))
    swept = [run for runs in sweep_runs_of(config).values() for run in runs.values()]
    for run in [*task_runs_of(config), *swept]:
        arguments = ["data", *task_arguments(tmp_path, run), *as_arguments(run.system.options)]
        parser = options.get_training_parser("sentence_prediction")
        parsed = options.parse_args_and_arch(parser, [*arguments, "--user-dir", toy.USER_DIR])
        assert (parsed.arch, parsed.classification_head_name) == (run.system.options["arch"], run.domain)
    for name, system in roberta_systems_of(config).items():
        if system.is_base and system.checkpoint is None:
            [run] = roberta_runs_of(config, name)
            arguments = ["data", *BASE_ARGUMENTS, *as_arguments(run.system.options), "--user-dir", toy.USER_DIR]
            parsed = options.parse_args_and_arch(options.get_training_parser("masked_lm"), arguments)
            # What it is trained on is as long as what it is used on.
            assert parsed.max_positions == parsed.tokens_per_sample


@pytest.mark.parametrize("path", WORD_LANGUAGE_MODELS, ids=lambda path: path.name)
def test_word_language_models_parse(path: Path) -> None:
    config = load_word_lm_config(path)
    assert word_lm_stages_of(config)
    for run in word_runs_of(config):
        arguments = ["data", "--task", WORD_LM_TASK, *as_arguments(run.system.options), "--user-dir", toy.USER_DIR]
        parsed = options.parse_args_and_arch(options.get_training_parser(WORD_LM_TASK), arguments)
        assert parsed.arch == run.system.options["arch"]
        assert parsed.combination == combination_of(run.system)
        assert bool(getattr(parsed, "word_vectors", "")) == (parsed.combination != "none")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_key_is_explained(path: Path) -> None:
    """Each line above a system's or output's own options has a comment, or belongs to a commented block."""
    for line in path.read_text(encoding="utf-8").splitlines():
        is_setting = line and not line.lstrip().startswith(("#", "-")) and line.startswith("  ") and line[2] != " "
        if is_setting and not line.rstrip().endswith(":"):
            assert "#" in line, f"{path.name}: {line}"
