"""Every file in configs/ is an experiment: its systems and outputs parse through fairseq's own parsers."""

import functools
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq import options

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.base.fairseq_cli import as_arguments
from fairseq_ext.base.fairseq_options import first_mistake
from fairseq_ext.classifiers.task_split import TaskFacts, write_task_facts
from fairseq_ext.experiments.classification.stages import BASE_ARGUMENTS, task_arguments, task_choices
from fairseq_ext.experiments.config import expand
from fairseq_ext.experiments.dagru import TASK as WORD_LM_TASK
from fairseq_ext.experiments.dagru import combination_of
from fairseq_ext.experiments.hierarchy.config import Hierarchy, HierarchyModel
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.decoding import decoding
from fairseq_ext.experiments.translation.sections import Corpora
from fairseq_ext.experiments.translation.stages import TranslationRecipe
from fairseq_ext.modules.language_model_options import ADAPTERS, LANGUAGE_MODELING_TASK
from fairseq_ext.text.cleaning.dictionary import Dictionary
from tests import toy

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = sorted((ROOT / "configs").glob("**/*.yaml"))
LANGUAGE_MODELS = [path for path in CONFIGS if path.parent.name in ("hier", "topics")]
CLASSIFIERS = [path for path in CONFIGS if path.parent.name == "houlsby"]
RERANKING = [path for path in CONFIGS if path.parent.name == "reranking"]
WORD_LANGUAGE_MODELS = [path for path in CONFIGS if path.parent.name == "dagru"]
# These prepare data and train nothing; tests/documents/test_pages.py looks at data.yaml.
NOT_TRAINING = ("data.yaml", "paper-base.yaml", "paper-base-en-el.yaml")
_OTHERS = LANGUAGE_MODELS + CLASSIFIERS + WORD_LANGUAGE_MODELS + RERANKING
TRAINING = [path for path in CONFIGS if path.name not in NOT_TRAINING and path not in _OTHERS]


@functools.cache  # many outputs have the same
def parse(program: str, *arguments: str) -> Namespace:
    """The options of a command, which the check before the first step must take, too."""
    assert first_mistake([(program, arguments)]) is None
    parser = options.get_training_parser() if program == "train" else options.get_generation_parser()
    return options.parse_args_and_arch(parser, ["data", *arguments, "--user-dir", toy.USER_DIR])


@pytest.mark.slow
@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.name)
def test_systems_and_outputs_parse_and_are_well_named(path: Path) -> None:
    config = load_config(path)
    if config.corpora.folder is not None:  # it may be missing here
        domains = Corpora(domains={"LAW": ("x.{lang}",), "SUB": ("y.{lang}",)})
        config = config.model_copy(update={"corpora": domains})
    assert config.systems
    for system in config.systems.values():
        parsed = parse("train", "--task", "multi_domain_translation", *as_arguments(system.options))
        assert parsed.arch == system.options["arch"]
        assert system.uses_teacher == parsed.criterion.endswith("kd_gate")
    for run in config.all_output_runs():
        parsed = parse("generate", *decoding(config, run)[1].arguments)
        assert bool(parsed.domain_tags) == run.output.system.has_tags
    runs = [run.name for system in config.systems.values() for run in expand(system, 1, config.domains)]
    for names in ([stage.name for stage in TranslationRecipe(config).stages()], runs):
        assert len(set(names)) == len(names)
    assert config.baselines[0] in config.outputs


@pytest.mark.slow
@pytest.mark.parametrize("path", LANGUAGE_MODELS, ids=lambda path: path.name)
def test_language_models_parse(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the trees' paths are relative to it
    recipe = load_experiment(path)
    experiment, names = recipe.experiment, [stage.name for stage in recipe.stages()]
    assert len(set(names)) == len(names)
    for model in experiment.systems.values():
        if model.checkpoint:
            continue
        options = getattr(model, "system", model).options
        parsed = parse("train", "--task", LANGUAGE_MODELING_TASK, *as_arguments(options))
        assert parsed.arch == options["arch"]
        assert parsed.tokens_per_sample == model.tokens_per_sample
        if isinstance(model, HierarchyModel):
            assert (getattr(parsed, "adapters", None) or ADAPTERS[0]) == (model.adapters or ADAPTERS[0])
    for tree in experiment.tree.values() if isinstance(experiment, Hierarchy) else ():
        assert not isinstance(tree, Path) or read_tree(tree).mean_path_length == 3


@pytest.mark.slow
@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.name)
def test_classifiers_parse(path: Path, tmp_path: Path) -> None:
    recipe = load_experiment(path)
    config, names = recipe.experiment, [stage.name for stage in recipe.stages()]
    assert len(set(names)) == len(names)
    write_task_facts(tmp_path, TaskFacts("classification", ["a", "b"], 2, {"train": 100}, {}))
    for run in config.task_runs:
        name, chosen = str(run.domain), run.system.options
        # Before there are data, fairseq takes the options as it does with them.
        parse("train", *as_arguments(task_choices(name, chosen)), *as_arguments(chosen))
        parsed = parse("train", *task_arguments(tmp_path, name, chosen), *as_arguments(chosen))
        assert (parsed.arch, parsed.classification_head_name) == (run.system.options["arch"], run.domain)
    for name, system in config.systems.items():
        if system.is_base and system.checkpoint is None:
            [run] = config.runs[name]
            parsed = parse("train", *BASE_ARGUMENTS, *as_arguments(run.system.options))
            # What it is trained on is as long as what it is used on.
            assert parsed.max_positions == parsed.tokens_per_sample


@pytest.mark.parametrize("path", WORD_LANGUAGE_MODELS, ids=lambda path: path.name)
def test_word_language_models_parse(path: Path) -> None:
    recipe = load_experiment(path)
    config = recipe.experiment
    assert recipe.stages()
    for run in config.all_runs:
        parsed = parse("train", "--task", WORD_LM_TASK, *as_arguments(run.system.options))
        assert parsed.arch == run.system.options["arch"]
        assert parsed.combination == combination_of(run.system)
        assert bool(getattr(parsed, "word_vectors", "")) == (parsed.combination != "none")


@pytest.mark.parametrize("path", RERANKING, ids=lambda path: path.name)
def test_re_ranking_parses(path: Path) -> None:
    recipe = load_experiment(path)
    experiment = recipe.experiment
    assert recipe.stages()
    [file] = [each for each in CONFIGS if each.name == path.name and each in TRAINING]
    translation = load_config(file)
    assert translation.work_dir == experiment.translation.work_dir
    assert translation.runs_of(experiment.translation.run)
    assert translation.target_lang == experiment.translation.target_lang
    given = ("--task", "multi_domain_translation", "--path", "x.pt", *as_arguments(experiment.translation.options))
    assert parse("generate", *given).domain_source == "none"
    for system in experiment.systems.values():
        assert parse("train", "--task", WORD_LM_TASK, *as_arguments(system.options)).arch == "dagru_lm_small"


def test_experiments_with_results_keep_the_filters_they_were_run_with() -> None:
    assert list(load_config(ROOT / "configs" / "mdmt" / "products-small.yaml").cleaning.filters) == ["empty"]
    for name in ("en-pl-small", "paper", "paper-base", "paper-en-el", "paper-base-en-el"):
        filters = load_config(ROOT / "configs" / "mdmt" / f"{name}.yaml").cleaning.filters
        assert not {"encoding", "completeness"} & filters.keys()
        assert filters["dictionary"] == Dictionary(min_share=0.2, max_evidence=None)
