"""The section ``topics`` of an experiment file, and what its systems are; mistakes are named when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.criterions.topic_language_modeling import TopicLanguageModelingCriterionConfig
from fairseq_ext.experiments.topics.config import TopicExperiment, load_config
from fairseq_ext.experiments.topics.kind import stages_of
from fairseq_ext.experiments.topics.results import TopicDesign
from fairseq_ext.experiments.topics.systems import AdaptedModel
from fairseq_ext.experiments.topics.tables import tdm_pairs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.transformer_lm_topic import TopicConfig
from tests.experiments.topics.small_topic_experiment import BASE_DOMAINS, SYSTEMS, write_topic_experiment


def config_of(folder: Path, **changes: Any) -> TopicExperiment:
    return load_config(write_topic_experiment(folder, **changes))


def test_systems_are_told_by_their_options(tmp_path: Path) -> None:
    systems = config_of(tmp_path).comparison
    assert (systems.base, systems.base_domains, systems.tokens_per_sample) == ("base", BASE_DOMAINS, 8)
    assert systems.adapted == {
        "tuned": AdaptedModel("garden_ask", 6),
        "steered": AdaptedModel("garden_ask", 6, 3, "triplet"),
        "steered-no-tdm": AdaptedModel("garden_ask", 6, 3, "none"),
        "output": AdaptedModel("garden_do", 6, 0, "triplet"),
    }
    assert systems.domains == ["garden_ask", "garden_do"]
    assert [name for name, model in systems.adapted.items() if model.has_tdm] == ["steered"]


def test_a_base_without_domains_has_read_all(tmp_path: Path) -> None:
    base = {key: value for key, value in SYSTEMS["base"].items() if key != "train-domains"}
    experiment = config_of(tmp_path, systems={**SYSTEMS, "base": base})
    assert experiment.comparison.base_domains == sorted([*BASE_DOMAINS, "garden_ask", "garden_do"])


@pytest.mark.parametrize(("named", "expected"), [({"train-domains": "bank_ask"}, ["bank_ask"]), ({}, [])])
def test_of_a_given_base_the_file_says_what_stands_for_its_text(
    tmp_path: Path, named: dict[str, str], expected: list[str]
) -> None:
    experiment = config_of(tmp_path, systems={**SYSTEMS, "base": {"checkpoint": "gpt2/model.pt", **named}})
    assert experiment.comparison.base_domains == expected


def test_a_frozen_output_embedding_makes_no_pair_with_a_trained_one(tmp_path: Path) -> None:
    frozen = {**SYSTEMS["steered-no-tdm"], "freeze-output-embedding": True}
    design = TopicDesign.of(config_of(tmp_path, systems={**SYSTEMS, "steered-no-tdm": frozen}))
    assert not tdm_pairs(design, "garden_ask")


def test_systems_of_other_transformations_are_no_pair(tmp_path: Path) -> None:
    plain = {**SYSTEMS["steered-no-tdm"], "topic-transformation": "addition"}
    design = TopicDesign.of(config_of(tmp_path, systems={**SYSTEMS, "steered-no-tdm": plain}))
    assert tdm_pairs(design, "garden_ask") == []
    assert design.systems.adapted["steered-no-tdm"].transformation == "addition"


def test_empty_is_the_defaults(tmp_path: Path) -> None:
    evaluation = config_of(tmp_path, topics={}).topics
    assert (evaluation.coherence, evaluation.baselines) == ([5, 10, 20], ["lda", "nmf"])
    assert config_of(tmp_path, topics={"baselines": []}).topics.baselines == []


def test_what_the_file_leaves_out_is_what_fairseq_takes(tmp_path: Path) -> None:
    options = {key: value for key, value in SYSTEMS["steered"].items() if key not in ("num-topics", "mixture", "tdm")}
    found = config_of(tmp_path, systems={**SYSTEMS, "steered": options}).comparison.adapted["steered"]
    model, criterion = TopicConfig(), TopicLanguageModelingCriterionConfig()
    assert (found.num_topics, found.mixture, found.tdm) == (model.num_topics, model.mixture, criterion.tdm)


def test_stages_are_those_of_topics(tmp_path: Path) -> None:
    stages = {stage.name: stage for stage in stages_of(config_of(tmp_path))}
    assert list(stages) == ["prepare", *SYSTEMS, "topics", "report"]
    work = tmp_path / "work"
    steps = {step.output.relative_to(work).as_posix(): step for step in stages["topics"].steps()}
    runs = [f"topics/{name}" for name in SYSTEMS]
    assert list(steps) == [*runs, "topic-baselines/garden_ask", "topic-baselines/garden_do"]
    # The base is measured wherever the others are.
    assert steps["topics/base"].options["domains"] == ["garden_ask", "garden_do"]
    assert steps["topics/output"].options["domains"] == ["garden_do"]


def test_what_only_shows_changes_no_step(tmp_path: Path) -> None:
    def options(**topics: Any) -> list[Any]:
        stages = {stage.name: stage for stage in stages_of(config_of(tmp_path, topics=topics))}
        return [step.options for step in stages["topics"].steps()]

    assert options() == options(samples=3, cpu=True)
    assert options() != options(top_k=3)


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ({"coherent": 3}, "topics: unknown key 'coherent'"),
        ({"coherence": [30]}, "topics: coherence: 30 is more than the 20 words of a topic; raise topic_words"),
        ({"coherence": [1]}, "topics: coherence: 1 is too small; give 2"),
        ({"baselines": ["plsa"]}, "topics: baselines: 'plsa' is unknown; choose one of lda, nmf"),
        ({"temperature": 0}, "topics: temperature: 0.0 is too small"),
        (None, "topics: expected keys and values, got None"),
    ],
)
def test_wrong_keys_are_named(tmp_path: Path, topics: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, topics=topics)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"steered": {"train-domains": "garden_ask,garden_do"}},
            "steered: train-domains: garden_ask, garden_do; name",
        ),
        ({"tuned": {"train-domains": None}}, "systems: tuned: train-domains: none; name the one domain"),
        ({"tuned": {"from": None}}, "systems: base, tuned without from: topic models are compared over one base"),
        ({"tuned": {"tokens-per-sample": 16}}, r"tokens-per-sample: give all .* not 16 \(tuned\), 8 \(steered\)"),
    ],
)
def test_systems_that_cannot_be_compared_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    merged = {name: {**options, **changes.get(name, {})} for name, options in SYSTEMS.items()}
    systems = {name: {k: v for k, v in options.items() if v is not None} for name, options in merged.items()}
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, systems=systems)


@pytest.mark.parametrize(("key", "section"), [("tree", {"oak": {}}), ("tree", {}), ("evaluate", {"cpu": True})])
def test_trees_are_of_another_kind(tmp_path: Path, key: str, section: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=rf"topics\.yaml: {key}: is for experiments with trees; write kind: hier"):
        config_of(tmp_path, **{key: section})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree": "oak"}, "tuned: tree: is for experiments with trees; write kind: hierarchy, or take it out"),
        ({"arch": "transformer_lm_hier_adapter"}, r"tuned: arch: transformer_lm_hier_adapter\* is for experiments"),
    ],
)
def test_adapters_on_trees_are_of_another_kind(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, systems={**SYSTEMS, "tuned": {**SYSTEMS["tuned"], **options}})


def test_a_system_is_not_named_as_the_stage(tmp_path: Path) -> None:
    systems = {"base": SYSTEMS["base"], "report": SYSTEMS["tuned"]}
    with pytest.raises(InputError, match="'report' is the name of a stage"):
        stages_of(config_of(tmp_path, systems=systems))
