"""What is measured of a tiny model: sums over lines, words, texts."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import Engine
from fairseq_ext.base.steps import run_steps
from fairseq_ext.experiments.metrics.records import Records, read_records
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.experiments.scoring import LanguageModelScorer
from fairseq_ext.experiments.topics.config import BASE_TEXT, COHERENCE, PERPLEXITY, TOPIC_0, Topics
from fairseq_ext.experiments.topics.measure import word_corpus
from fairseq_ext.experiments.topics.stages import TopicsRecipe
from fairseq_ext.experiments.topics.texts import continue_prompts
from fairseq_ext.experiments.topics.words import u_mass
from fairseq_ext.text.encoders import load_encoder
from tests.experiments.small_lm import make_checkpoint
from tests.experiments.topics.small_experiment import BASE_DOMAINS, SYSTEMS, TOPICS, write_topic_experiment

LENGTH = 6  # tokens of a line, some of which are cut
HOW = {**TOPICS, "lines": 60, "topic_words": 4, "base_lines": 5, "prompts": 4, "max_len": 9}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Topics:
    """Prepared text, and checkpoints of a base and of a model whose topics differ."""
    systems = {name: {**SYSTEMS[name], "tokens-per-sample": LENGTH} for name in ("base", "steered")}
    config = load_experiment(write_topic_experiment(tmp_path_factory.mktemp("topics"), systems, HOW)).experiment
    run_steps(TopicsRecipe(config).prepare(Engine(1)))
    base, steered = checkpoint_of(config, "base"), checkpoint_of(config, "steered")
    for path in (base, steered):
        path.parent.mkdir(parents=True)
    data, size = config.work_dir / "data-bin", {"tokens_per_sample": 16}
    make_checkpoint(base, data, "transformer_lm_tiny", **size)
    make_checkpoint(steered, data, "transformer_lm_topic_tiny", num_topics=3, **size)
    state, generator = torch.load(steered, weights_only=True), torch.Generator().manual_seed(5)
    for name, value in state["model"].items():
        if "topics.steering.transformation" in name or name.endswith("topics.output_weight"):
            value.normal_(std=0.3, generator=generator)
    torch.save(state, steered)
    return config


def checkpoint_of(config: Topics, system: str) -> Path:
    return config.work_dir / "systems" / system / "checkpoint_best.pt"


def scorer_of(config: Topics, system: str) -> LanguageModelScorer:
    data = config.work_dir / "data-bin"
    return LanguageModelScorer.load(
        checkpoint_of(config, system), data, tokens_per_sample=LENGTH, cpu=True, by_line=True
    )


@pytest.fixture(scope="module")
def measured(config: Topics) -> dict[str, Path]:
    """What the steps of the two runs leave."""
    steps = TopicsRecipe(config).measure()[:2]
    run_steps(steps)
    return {step.output.name: step.output for step in steps}


def records_of(folder: Path) -> Records:
    return read_records(folder / "records.jsonl")


@pytest.mark.parametrize(
    ("system", "dims", "topic"), [("base", {}, None), ("steered", {}, None), ("steered", TOPIC_0, 0)]
)
def test_perplexity_is_that_of_single_lines_with_their_ends(
    config: Topics, measured: dict[str, Path], system: str, dims: dict[str, int], topic: int | None
) -> None:
    scorer = scorer_of(config, system)
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
    records = records_of(measured[system])
    [record] = records.of(system, PERPLEXITY, "garden_ask", **dims)
    assert (record.value, record.n) == (pytest.approx(math.exp(nats / tokens), rel=1e-5), tokens)
    own = [records.value(system, PERPLEXITY, domain, **dims) for domain in BASE_DOMAINS]
    assert records.value(system, PERPLEXITY, BASE_TEXT, **dims) == pytest.approx(math.sqrt(math.prod(own)))


def test_topics_have_words_and_shares(config: Topics, measured: dict[str, Path]) -> None:
    topics = json.loads((measured["steered"] / "topics.json").read_text(encoding="utf-8"))["topics"]
    assert len(topics) == 4
    assert sum(topic["share"] for topic in topics) == pytest.approx(1)
    assert max(topic["share"] for topic in topics) < 1
    assert {len(topic[way]) for topic in topics for way in ("near", "used")} == {4}
    assert {"tree", "seed"} & {word for topic in topics for word in topic["used"]}
    records = records_of(measured["steered"])
    assert all(records.of("steered", metric, "garden_ask") for metric in ("entropy", "dead topics"))
    assert records.of("steered", COHERENCE, "garden_ask", words="near", top=2)
    # Topic 0 is the base.
    documents = word_corpus(config, "garden_ask").documents
    expected = u_mass([topic["used"] for topic in topics[1:]], documents, [3])[3]
    assert records.value("steered", COHERENCE, "garden_ask", words="used", top=3) == pytest.approx(expected)
    assert not (measured["base"] / "topics.json").exists()


def test_texts_continue_their_prompts(config: Topics, measured: dict[str, Path]) -> None:
    samples = json.loads((measured["steered"] / "samples.json").read_text(encoding="utf-8"))["garden_ask"]
    lines = (config.work_dir / "splits/garden_ask/test.txt").read_text().splitlines()
    long = [line for line in lines if len(line.split()) >= 4][:4]
    assert [f"{sample['text']} {sample['reference']}" for sample in samples] == long
    assert all(len(sample["text"].split()) == 2 for sample in samples)
    assert any(sample["written"] for sample in samples)
    assert all(not sample["written"].startswith(sample["text"]) for sample in samples)
    assert records_of(measured["steered"]).of("steered", "Dist-2", "garden_ask")[0].n == 4


def test_the_first_written_token_is_the_one_after_the_prompt(config: Topics) -> None:
    data, prompts = config.work_dir / "data-bin", ["tree seed"] * 20
    scorer = scorer_of(config, "base")
    [pieces] = load_encoder(data)(prompts[:1])
    length = len(pieces.split())
    how = config.topics.model_copy(update={"max_len": length + 1, "temperature": 1.0, "top_k": 9})
    # There is room for one token, or for none.
    assert any(continue_prompts(scorer.model, scorer.task, data, prompts, how, 1))
    with pytest.raises(InputError, match="max_len"):
        continue_prompts(scorer.model, scorer.task, data, prompts, how.model_copy(update={"max_len": length - 1}), 1)


def test_domains_of_the_base(tmp_path: Path) -> None:
    def base_domains(**base: Any) -> list[str]:
        path = write_topic_experiment(tmp_path, {**SYSTEMS, "base": base})
        return list(load_experiment(path).experiment.base_domains)

    assert base_domains(arch="transformer_lm_tiny") == sorted([*BASE_DOMAINS, "garden_ask", "garden_do"])
    given = {"checkpoint": "gpt2/model.pt"}
    assert base_domains(**given) == []
    assert base_domains(**given, **{"train-domains": "bank_ask"}) == ["bank_ask"]
