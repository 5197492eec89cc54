"""What is measured of a tiny model: sums over lines, words, texts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.corpora.encoders import load_encoder
from fairseq_ext.engine.steps import run_steps
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.records import Record, read_records
from fairseq_ext.recipes.language_models import preparation_steps
from fairseq_ext.recipes.perplexity import LanguageModelScorer
from fairseq_ext.recipes.topics.config import Topics
from fairseq_ext.recipes.topics.measure import word_corpus
from fairseq_ext.recipes.topics.measurement import (
    BASE_TEXT,
    PERPLEXITY,
    TOPIC_0_PERPLEXITY,
    coherence,
    topic_steps,
)
from fairseq_ext.recipes.topics.texts import continue_prompts
from fairseq_ext.recipes.topics.words import u_mass
from tests.recipes.small_lm import make_checkpoint
from tests.recipes.topics.small_experiment import BASE_DOMAINS, SYSTEMS, TOPICS, load, write_topic_experiment

LENGTH = 6  # tokens of a line, some of which are cut
HOW = {**TOPICS, "lines": 60, "topic_words": 4, "base_lines": 5, "prompts": 4, "max_len": 9}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Topics:
    """Prepared text, and checkpoints of a base and of a model whose topics differ."""
    root = tmp_path_factory.mktemp("topics")
    systems = {name: {**SYSTEMS[name], "tokens-per-sample": LENGTH} for name in ("base", "steered")}
    config = load(write_topic_experiment(root, systems, HOW))
    run_steps(preparation_steps(config, Engine(1)))
    for name, arch in {"base": "transformer_lm_tiny", "steered": "transformer_lm_topic_tiny"}.items():
        folder = config.work_dir / "systems" / name
        folder.mkdir(parents=True)
        make_model(folder / "checkpoint_best.pt", config.work_dir / "data-bin", arch)
    return config


def make_model(path: Path, data: Path, arch: str) -> None:
    topics = {"num_topics": 3} if "topic" in arch else {}
    make_checkpoint(path, data, arch, tokens_per_sample=16, **topics)
    state = torch.load(path, weights_only=True)
    torch.manual_seed(5)
    for name, value in state["model"].items():
        if "topics.steering.transformation" in name or name.endswith("topics.output_weight"):
            value.normal_(std=0.3)
    torch.save(state, path)


@pytest.fixture(scope="module")
def measured(config: Topics, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the steps of the two runs leave."""
    folders = {}
    for step in topic_steps(config)[:2]:
        folder = tmp_path_factory.mktemp(step.output.name)
        step.build(folder)
        folders[step.output.name] = folder
    return folders


def records_of(folder: Path) -> dict[tuple[str, str], Record]:
    return {(each.metric, each.domain): each for each in read_records(folder / "records.jsonl")}


def perplexity_by_hand(config: Topics, system: str, topic: int | None) -> tuple[float, int]:
    """Perplexity and number of tokens of the test lines of a domain, a line at a time."""
    checkpoint, data = config.work_dir / "systems" / system / "checkpoint_best.pt", config.work_dir / "data-bin"
    scorer = LanguageModelScorer.load(checkpoint, data, tokens_per_sample=LENGTH, cpu=True, by_line=True)
    scorer.model.decoder.forced_topic = topic
    dictionary = scorer.task.source_dictionary
    nats, tokens = 0.0, 0
    for line in (config.work_dir / "encoded/garden_ask/test.txt").read_text(encoding="utf-8").splitlines():
        target = dictionary.encode_line(line, add_if_not_exist=False).long()[:LENGTH]
        source = torch.cat([target.new_tensor([dictionary.eos()]), target[:-1]])
        with torch.no_grad():
            scores, _ = scorer.model(source.unsqueeze(0))
        nats -= float(scores[0].log_softmax(-1)[torch.arange(len(target)), target].sum())
        tokens += len(target)
    return math.exp(nats / tokens), tokens


@pytest.mark.parametrize(
    ("system", "metric", "topic"),
    [("base", PERPLEXITY, None), ("steered", PERPLEXITY, None), ("steered", TOPIC_0_PERPLEXITY, 0)],
)
def test_every_line_is_read_alone_and_its_end_counts(
    config: Topics, measured: dict[str, Path], system: str, metric: str, topic: int | None
) -> None:
    record = records_of(measured[system])[metric, "garden_ask"]
    perplexity, tokens = perplexity_by_hand(config, system, topic)
    assert record.value == pytest.approx(perplexity, rel=1e-5)
    assert record.n == tokens


def test_the_text_of_the_base_is_the_mean_over_its_domains(measured: dict[str, Path]) -> None:
    records = records_of(measured["steered"])
    values = [records[PERPLEXITY, domain].value for domain in ("bank_ask", "bank_do")]
    assert records[PERPLEXITY, BASE_TEXT].value == pytest.approx(math.sqrt(math.prod(values)))


def test_topics_have_words_and_shares(config: Topics, measured: dict[str, Path]) -> None:
    topics = json.loads((measured["steered"] / "topics.json").read_text(encoding="utf-8"))["topics"]
    assert len(topics) == 4
    assert sum(topic["share"] for topic in topics) == pytest.approx(1)
    assert max(topic["share"] for topic in topics) < 1
    assert {len(topic[way]) for topic in topics for way in ("near", "used")} == {4}
    assert {"tree", "seed"} & {word for topic in topics for word in topic["used"]}
    records = records_of(measured["steered"])
    for metric in ("entropy", "dead topics", coherence("near", 2), coherence("used", 3)):
        assert (metric, "garden_ask") in records
    # Topic 0 is the base.
    documents = word_corpus(config, "garden_ask").documents
    expected = u_mass([topic["used"] for topic in topics[1:]], documents, [3])[3]
    assert records[coherence("used", 3), "garden_ask"].value == pytest.approx(expected)
    assert not (measured["base"] / "topics.json").exists()


def test_texts_continue_their_prompts(config: Topics, measured: dict[str, Path]) -> None:
    samples = json.loads((measured["steered"] / "samples.json").read_text(encoding="utf-8"))["garden_ask"]
    lines = (config.work_dir / "splits/garden_ask/test.txt").read_text().splitlines()
    long = [line for line in lines if len(line.split()) >= 4][:4]
    assert [f"{sample['text']} {sample['reference']}" for sample in samples] == long
    assert all(len(sample["text"].split()) == 2 for sample in samples)
    assert any(sample["written"] for sample in samples)
    assert all(not sample["written"].startswith(sample["text"]) for sample in samples)
    assert records_of(measured["steered"])["Dist-2", "garden_ask"].n == 4


def test_a_prompt_leaves_something_to_write(config: Topics, tmp_path: Path) -> None:
    short = config.model_copy(update={"topics": config.topics.model_copy(update={"max_len": 2})})
    with pytest.raises(InputError, match="max_len"):
        topic_steps(short)[0].build(tmp_path)


def test_the_first_written_token_is_the_one_after_the_prompt(config: Topics) -> None:
    data, prompts = config.work_dir / "data-bin", ["tree seed"] * 20
    checkpoint = config.work_dir / "systems/base/checkpoint_best.pt"
    scorer = LanguageModelScorer.load(checkpoint, data, tokens_per_sample=LENGTH, cpu=True, by_line=True)
    [pieces] = load_encoder(data)(prompts[:1])
    # There is room for one token.
    how = config.topics.model_copy(update={"max_len": len(pieces.split()) + 1, "temperature": 1.0, "top_k": 9})
    assert any(continue_prompts(scorer.model, scorer.task, data, prompts, how, 1))


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
