"""What a topic model's record says of a tiny one: sums over lines, words, and texts; and parts that are taken over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from fairseq_ext.experiments.topics.config import TopicEvaluation
from fairseq_ext.experiments.topics.measure import (
    Places,
    TopicMeasurement,
    line_nats,
    measure_baselines,
    measure_topics,
)
from fairseq_ext.metrics.perplexity import LanguageModelScorer
from fairseq_ext.text.encoders import load_encoder
from fairseq_ext.text.subwords import SentencePiece, train_sentencepiece
from tests.experiments.small_lm_experiment import DOMAINS
from tests.experiments.topics.small_topic_experiment import SUBWORDS, write_texts
from tests.induction.small_lm import make_checkpoint

LENGTH = 6  # tokens of a line, some of which are cut
HOW = TopicEvaluation(
    lines=60, topic_words=4, min_count=2, coherence=[2, 3], baseline_topics=[2], base_lines=5, prompts=4,
    prompt_words=2, max_len=9, top_k=3, cpu=True,
)  # fmt: skip
WHAT = TopicMeasurement(["garden_ask"], ["bank_do"], LENGTH, HOW, seed=1)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Text, its pieces and numbers, and a model with topics that differ."""
    root = tmp_path_factory.mktemp("topics")
    write_texts(root)
    data = root / "data-bin"
    data.mkdir()
    train_sentencepiece(
        data, [[root / "text" / f"{n}.txt"] for n in DOMAINS], [], options=SentencePiece(vocab_size=SUBWORDS), seed=1
    )
    encode, dictionary = load_encoder(data), Dictionary.load(str(data / "dict.txt"))
    for name in DOMAINS:
        lines = (root / "text" / f"{name}.txt").read_text().splitlines()
        for split, part in (("train", lines[:100]), ("test", lines[100:120])):
            for folder, text in (("splits", part), ("encoded", list(encode(part)))):
                path = root / folder / name / f"{split}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(text) + "\n", encoding="utf-8")
            binarise(root / "encoded" / name / f"{split}.txt", data / name / split, dictionary)
    (data / "domains.txt").write_text("".join(f"{name}\n" for name in sorted(DOMAINS)))
    make_checkpoint(root / "plain.pt", data, tokens_per_sample=16)
    return Places(data, root / "splits", root / "encoded", make_topics(root / "topics.pt", data))


def binarise(text: Path, output: Path, dictionary: Dictionary) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    FileBinarizer.multiprocess_dataset(
        str(text), "mmap", binarizer, str(output), vocab_size=len(dictionary), num_workers=1
    )


def make_topics(path: Path, data: Path) -> Path:
    make_checkpoint(path, data, "transformer_lm_topic_tiny", num_topics=3, tokens_per_sample=16)
    state = torch.load(path, weights_only=True)
    torch.manual_seed(5)
    for name, value in state["model"].items():
        if "topics.steering.transformation" in name or name.endswith("topics.output_weight"):
            value.normal_(std=0.3)
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def scorer(places: Places) -> LanguageModelScorer:
    return scorer_of(places, "topics.pt")


def scorer_of(places: Places, checkpoint: str) -> LanguageModelScorer:
    return LanguageModelScorer.load(
        places.data.parent / checkpoint, places.data, tokens_per_sample=LENGTH, cpu=True, by_line=True
    )


def by_hand(scorer: LanguageModelScorer, places: Places, domain: str) -> tuple[float, int, int]:
    """Nats, tokens and cut tokens of the test lines, a line at a time."""
    dictionary = scorer.task.source_dictionary
    nats, tokens, cut = 0.0, 0, 0
    for line in (places.encoded / domain / "test.txt").read_text(encoding="utf-8").splitlines():
        target = dictionary.encode_line(line, add_if_not_exist=False).long()
        cut += max(0, len(target) - LENGTH)
        target = target[:LENGTH]
        source = torch.cat([target.new_tensor([dictionary.eos()]), target[:-1]])
        with torch.no_grad():
            scores, _ = scorer.model(source.unsqueeze(0))
            log_probs = scores[0].log_softmax(-1)
        nats -= float(log_probs[torch.arange(len(target)), target].sum())
        tokens += len(target)
    return nats, tokens, cut


@pytest.mark.parametrize("checkpoint", ["plain.pt", "topics.pt"])
def test_a_line_is_a_row_and_its_end_counts(places: Places, checkpoint: str) -> None:
    scorer = scorer_of(places, checkpoint)
    nats, tokens = line_nats(scorer, scorer.batches("garden_ask", "test"))
    expected = by_hand(scorer, places, "garden_ask")
    assert nats == pytest.approx(expected[0], rel=1e-5)
    assert tokens == expected[1]
    assert expected[2] > 0


def test_chosen_lines_are_those(scorer: LanguageModelScorer, places: Places) -> None:
    batches = scorer.chosen_batches("garden_ask", "train", np.array([3, 8, 40]))
    rows = {tuple(row[row.ne(1)].tolist()) for batch in batches for row in batch["target"]}
    lines = (places.encoded / "garden_ask/train.txt").read_text(encoding="utf-8").splitlines()
    expected = [scorer.task.source_dictionary.encode_line(lines[n], add_if_not_exist=False) for n in (3, 8, 40)]
    assert rows == {tuple(line[:LENGTH].tolist()) for line in expected}


@pytest.fixture(scope="module")
def measured(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    measure_topics(folder, places, WHAT)
    return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_record_has_all_of_a_model(measured: Path, places: Places, scorer: LanguageModelScorer) -> None:
    assert sorted(path.name for path in measured.iterdir()) == ["forced.json", "samples.json", "topics.json"]
    record = read(measured / "topics.json")
    text = record["texts"]["garden_ask"]
    nats, tokens, cut = by_hand(scorer, places, "garden_ask")
    assert (text["lines"], text["tokens"], text["cut"]) == (20, tokens, cut)
    assert text["nats"]["all"] == pytest.approx(nats, rel=1e-5)
    scorer.model.decoder.forced_topic = 0
    residual, _, _ = by_hand(scorer, places, "garden_ask")
    scorer.model.decoder.forced_topic = None
    assert text["nats"]["0"] == pytest.approx(residual, rel=1e-5)
    assert residual != pytest.approx(nats, rel=1e-3)
    assert record["base"].keys() == {"bank_do"}
    assert record["base"]["bank_do"]["lines"] == 5


def test_topics_have_words_shares_and_coherence(measured: Path) -> None:
    topics = read(measured / "topics.json")["topics"]
    assert (topics["num_topics"], topics["lines"]) == (3, 60)
    assert sum(topics["usage"]) == pytest.approx(1)
    assert 0 < topics["entropy"] <= 2
    for way in ("near", "used"):
        assert [len(words) for words in topics["words"][way]] == [min(4, topics["candidates"])] * 4
        assert {"tree", "seed"} & {word for words in topics["words"][way] for word in words}
        assert topics["coherence"][way].keys() == {"2", "3"}


def test_texts_go_on_from_their_prompts(measured: Path, places: Places) -> None:
    samples = read(measured / "samples.json")["garden_ask"]
    lines = (places.splits / "garden_ask/test.txt").read_text().splitlines()
    long = [line for line in lines if len(line.split()) >= 4][:4]
    assert [f"{sample['text']} {sample['reference']}" for sample in samples] == long
    assert all(len(sample["text"].split()) == 2 for sample in samples)
    assert all(not sample["written"].startswith(sample["text"]) for sample in samples)
    assert any(sample["written"] for sample in samples)
    assert read(measured / "topics.json")["texts"]["garden_ask"]["metrics"]["prompts"] == 4
    forced = read(measured / "forced.json")
    assert forced["text"] == samples[0]["text"]
    assert len(forced["written"]) == 4
    assert len(set(forced["written"])) > 1


def test_measured_parts_are_taken_over(measured: Path, places: Places, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    part = {"lines": 1, "tokens": 2, "nats": {"all": 7.0}}
    (tmp_path / "parts/base-bank_do.json").write_text(json.dumps(part))
    measure_topics(tmp_path, places, WHAT)
    again, before = read(tmp_path / "topics.json"), read(measured / "topics.json")
    assert again["base"] == {"bank_do": part}
    # The rest is the same, what was drawn included.
    assert again["topics"] == before["topics"]
    assert read(tmp_path / "samples.json") == read(measured / "samples.json")


@pytest.mark.slow
def test_baselines_see_the_same_lines_and_words(measured: Path, places: Places, tmp_path: Path) -> None:
    measure_baselines(tmp_path, places, WHAT)
    record, topics = read(tmp_path / "baselines.json"), read(measured / "topics.json")["topics"]
    assert (record["lines"], record["candidates"]) == (topics["lines"], topics["candidates"])
    assert [(found["kind"], found["num_topics"]) for found in record["topics"]] == [("lda", 2), ("nmf", 2)]
    for found in record["topics"]:
        assert found["coherence"].keys() == {"2", "3"}
        assert {word for words in found["words"] for word in words} <= {w for ws in topics["words"]["used"] for w in ws}


def test_a_model_without_topics_has_none(places: Places, tmp_path: Path) -> None:
    plain = Places(places.data, places.splits, places.encoded, places.data.parent / "plain.pt")
    measure_topics(tmp_path, plain, WHAT)
    record = read(tmp_path / "topics.json")
    assert record["topics"] is None
    assert record["texts"]["garden_ask"]["nats"].keys() == {"all"}
    assert not (tmp_path / "forced.json").exists()
