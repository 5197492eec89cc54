"""Experiment files of topic models: what their systems are, and where mistakes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterionConfig
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.transformer_lm_topic import TopicConfig
from fairseq_ext.recipes.topics.report import default_pairs
from fairseq_ext.recipes.topics.stages import stages_of
from tests.recipes.topics.small_experiment import BASE_DOMAINS, SYSTEMS, load, write_topic_experiment


def test_systems_are_a_base_and_models_of_one_domain_each(tmp_path: Path) -> None:
    config = load(write_topic_experiment(tmp_path))
    assert (config.base.name, config.base_domains, config.tokens_per_sample) == ("base", BASE_DOMAINS, 8)
    assert {system.name: (system.domains, system.num_topics, system.tdm) for system in config.adapted} == {
        "tuned": (["garden_ask"], None, "none"),
        "steered": (["garden_ask"], 3, "triplet"),
        "steered-no-tdm": (["garden_ask"], 3, "none"),
        "output": (["garden_do"], 0, "none"),
    }
    assert config.domains_of("base") == config.domains == ["garden_ask", "garden_do"]
    assert config.domains_of("output") == ["garden_do"]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ({"arch": "transformer_lm_tiny"}, sorted([*BASE_DOMAINS, "garden_ask", "garden_do"])),
        ({"checkpoint": "gpt2/model.pt"}, []),
        ({"checkpoint": "gpt2/model.pt", "train-domains": "bank_ask"}, ["bank_ask"]),
    ],
)
def test_the_text_of_the_base_is_all_unless_it_is_given(
    tmp_path: Path, base: dict[str, Any], expected: list[str]
) -> None:
    assert load(write_topic_experiment(tmp_path, {**SYSTEMS, "base": base})).base_domains == expected


def test_missing_options_have_the_defaults_of_the_model(tmp_path: Path) -> None:
    options = {key: value for key, value in SYSTEMS["steered"].items() if key not in ("num-topics", "tdm")}
    found = load(write_topic_experiment(tmp_path, {**SYSTEMS, "steered": options})).systems["steered"]
    assert (found.num_topics, found.tdm) == (TopicConfig().num_topics, TopicLanguageModelingCriterionConfig().tdm)


@pytest.mark.parametrize(
    ("options", "baselines"),
    [({}, ["tuned", "steered-no-tdm"]), ({"topic-transformation": "addition"}, ["tuned"])],
)
def test_the_system_without_tdm_is_a_baseline_if_nothing_else_differs(
    tmp_path: Path, options: dict[str, Any], baselines: list[str]
) -> None:
    systems = {**SYSTEMS, "steered-no-tdm": {**SYSTEMS["steered-no-tdm"], **options}}
    pairs = default_pairs(load(write_topic_experiment(tmp_path, systems)))
    assert pairs == {"steered": baselines, "steered-no-tdm": ["tuned"]}


def test_every_system_is_a_stage(tmp_path: Path) -> None:
    stages = {stage.name: stage for stage in stages_of(load(write_topic_experiment(tmp_path)))}
    assert list(stages) == ["prepare", *SYSTEMS, "topics", "report"]
    assert stages["prepare"].steps()[-1].output.name == "topic-texts"
    work = tmp_path / "work"
    steps = {step.output.relative_to(work).as_posix(): step for step in stages["topics"].steps()}
    runs = [f"topics/{name}" for name in SYSTEMS]
    assert list(steps) == [*runs, "topic-baselines/garden_ask", "topic-baselines/garden_do"]
    assert steps["topics/base"].options["domains"] == ["garden_ask", "garden_do"]
    systems = {"base": SYSTEMS["base"], "report": SYSTEMS["tuned"]}
    with pytest.raises(InputError, match="train: systems: 'report'"):
        load(write_topic_experiment(tmp_path, systems))


def test_what_only_the_report_shows_is_not_measured_again(tmp_path: Path) -> None:
    def options(topics: Any) -> list[Any]:
        stages = {stage.name: stage for stage in stages_of(load(write_topic_experiment(tmp_path, topics=topics)))}
        return [step.options for step in stages["topics"].steps()]

    assert options(None) == options({}) == options({"samples": 3, "cpu": True, "reading": "words.md"})
    assert options({}) != options({"top_k": 3})


@pytest.mark.parametrize(
    ("topics", "key"),
    [
        ({"coherence": [30]}, "coherence"),
        ({"coherence": [1]}, "coherence"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, topics: Any, key: str) -> None:
    path = write_topic_experiment(tmp_path, topics=topics)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: topics: {key}")


@pytest.mark.parametrize(
    ("system", "options", "place"),
    [
        ("steered", {"train-domains": "garden_ask,garden_do"}, "steered: train-domains"),
        ("tuned", {"train-domains": None}, "tuned: train-domains"),
        ("tuned", {"from": None}, "base, tuned without from"),
        ("steered", {"tokens-per-sample": 16}, "steered: tokens-per-sample"),
        ("steered", {"num-topics": -1}, "steered: num-topics"),
        ("tuned", {"tree": "oak"}, "tuned: tree"),
        ("tuned", {"arch": "transformer_lm_hier_adapter"}, "tuned: arch"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: str, options: dict[str, Any], place: str) -> None:
    merged = {**SYSTEMS, system: {**SYSTEMS[system], **options}}
    path = write_topic_experiment(tmp_path, merged)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: train: systems: {place}")
