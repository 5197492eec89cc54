"""Topic models on an imported GPT-2 and its byte-level subwords, from text to the report by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.convert.gpt2 import import_gpt2
from fairseq_ext.metrics.records import read_records
from tests.convert.tiny_gpt2 import make_gpt2
from tests.recipes.commands import run_experiment
from tests.recipes.topics.small_experiment import BASE_DOMAINS, TOPICS, write_texts, write_topic_experiment

pytestmark = pytest.mark.slow

LINES = {"from": "gpt2", "sample-break-mode": "eos", "shorten-method": "truncate", "tokens-per-sample": 20,
         "max-update": 4, "train-domains": "garden_ask"}  # fmt: skip


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt2-topics")
    write_texts(folder)
    text = [line for path in sorted((folder / "text").iterdir()) for line in path.read_text().splitlines()]
    model = make_gpt2(folder / "hf", text=text).config
    (folder / "gpt2").mkdir()
    import_gpt2(folder / "hf", folder / "gpt2")
    size = {"decoder-embed-dim": model.n_embd, "decoder-ffn-embed-dim": 4 * model.n_embd,
            "decoder-layers": model.n_layer, "decoder-attention-heads": model.n_head,
            "max-target-positions": model.n_positions}  # fmt: skip
    topics = {**LINES, **size, "arch": "transformer_lm_topic_gpt2", "criterion": "topic_language_modeling"}
    systems = {
        "gpt2": {"checkpoint": str(folder / "gpt2/model.pt"), "train-domains": ",".join(BASE_DOMAINS)},
        "steered": {**topics, "num-topics": 2, "frozen-mode": "eval"},
        "still": {**topics, "num-topics": 2, "lr": 1e-9, "tdm": "none"},
    }  # fmt: skip
    path = write_topic_experiment(
        folder, systems, {**TOPICS, "max_len": 20, "prompt_words": 1}, subwords={"gpt2": str(folder / "gpt2")}
    )
    result = run_experiment(str(path))
    assert result.returncode == 0, result.stderr[-3000:]
    return path


def test_topics_have_words_and_texts(experiment: Path) -> None:
    folder = experiment.parent / "work/topics/steered"
    topics = json.loads((folder / "topics.json").read_text(encoding="utf-8"))["topics"]
    assert len(topics) == 3
    assert all(word.isalpha() for topic in topics for word in topic["used"])
    assert "Ġ" not in (folder / "samples.json").read_text(encoding="utf-8")
    page = (experiment.parent / "work/report/report.html").read_text(encoding="utf-8")
    assert "Table 3. Systems: garden_ask" in page


def test_topics_that_have_not_moved_are_gpt2(experiment: Path) -> None:
    records = read_records(experiment.parent / "work/report/records.jsonl")
    for domain in ("garden_ask", *BASE_DOMAINS):
        [expected] = records.of("gpt2", "perplexity", domain)
        for metric in ("perplexity", "perplexity, topic 0 alone"):
            assert records.of("still", metric, domain)[0].value == pytest.approx(expected.value, rel=1e-4)
