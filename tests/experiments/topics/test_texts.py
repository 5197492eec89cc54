"""What cannot be measured is said before anything is trained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.topics.config import TopicEvaluation, TopicExperiment, load_config
from fairseq_ext.experiments.topics.kind import stages_of
from fairseq_ext.experiments.topics.texts import look_at, texts_step
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.encoders import encode_texts
from tests.experiments.topics.small_topic_experiment import write_topic_experiment
from tests.hugging_face.tiny_gpt2 import make_imported_bpe

EVALUATION = TopicEvaluation(min_count=2, prompts=3, prompt_words=3, max_len=40)


@pytest.fixture
def experiment(tmp_path: Path) -> TopicExperiment:
    """Text of one domain in pieces of a byte-level BPE, as ``prepare`` leaves it."""
    experiment = load_config(write_topic_experiment(tmp_path, topics={"min_count": 2, "prompts": 3, "prompt_words": 3}))
    work = experiment.work_dir
    lines = (tmp_path / "text" / "garden_ask.txt").read_text(encoding="utf-8").splitlines()
    for name in experiment.comparison.domains:
        for split in ("train", "test"):
            path = work / "splits" / name / f"{split}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    make_imported_bpe(work / "data-bin", lines)
    files = [(name, "train") for name in experiment.comparison.domains]
    encode_texts(work / "encoded", work / "splits", work / "data-bin", files, Engine(1))
    return experiment


def test_byte_level_pieces_have_words_and_prompts(experiment: TopicExperiment, tmp_path: Path) -> None:
    texts_step(experiment).build(tmp_path)
    found = json.loads((tmp_path / "texts.json").read_text(encoding="utf-8"))
    assert list(found) == experiment.comparison.domains
    for counts in found.values():
        assert counts["lines"] == 150
        assert counts["candidates"] > 0
        assert counts["prompts"] == 3
        assert 4 <= counts["longest_prompt"] <= 40


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_len": 3}, "topics: max_len: 3 leaves no room after"),
        ({"prompt_words": 50}, "no line has 100 words; lower topics: prompt_words"),
        ({"min_count": 100}, "no word is in 100 of 150 lines; lower topics: min_count"),
    ],
)
def test_what_cannot_be_measured_is_named(experiment: TopicExperiment, changes: dict[str, int], message: str) -> None:
    evaluation = replace(EVALUATION, **changes)
    with pytest.raises(InputError, match=message):
        look_at(experiment.work_dir, "garden_ask", evaluation, 1)


def test_it_is_the_last_step_before_the_first_training(experiment: TopicExperiment) -> None:
    [prepare] = [stage for stage in stages_of(experiment) if stage.name == "prepare"]
    assert prepare.steps()[-1].output.name == "topic-texts"
