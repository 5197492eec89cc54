"""An experiment with topic models that never ran: its file and the records that its steps would have left."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.experiments.topics.config import TopicExperiment, load_config
from fairseq_ext.metrics.text_metrics import METRICS

DOMAINS = ["films", "shops"]
BASE_DOMAINS = ["law", "news"]
LINES, TOKENS, CUT = 50, 1000, 12
# Perplexity on the own text, on the base's text; number of topics.
FIGURES: dict[str, tuple[float, float, int | None]] = {
    "base": (90.0, 40.0, None),
    "tuned": (60.0, 48.0, None),
    "output": (62.0, 44.0, 0),
    "many": (55.0, 40.2, 3),
    "many-free": (56.0, 43.0, 3),
}


def experiment_file(folder: Path, **topics: Any) -> dict[str, Any]:
    """The contents of the file: every system but the base for both domains; one has two seeds."""
    steered = {"arch": "transformer_lm_topic_small", "criterion": "topic_language_modeling"}
    options: dict[str, dict[str, Any]] = {
        "tuned": {"arch": "transformer_lm_small"},
        "output": {**steered, "num-topics": 0},
        "many": {**steered, "num-topics": 3, "seeds": [1, 2]},
        "many-free": {**steered, "num-topics": 3, "tdm": "none"},
    }
    systems: dict[str, Any] = {"base": {"arch": "transformer_lm_small", "train-domains": ",".join(BASE_DOMAINS)}}
    for domain in DOMAINS:
        common = {"from": "base", "train-domains": domain, "tokens-per-sample": 64, "max-update": 300}
        systems |= {f"{name}-{domain}": {**common, **own} for name, own in options.items()}
    return {
        "kind": "topics",
        "work_dir": str(folder / "runs"),
        "corpora": {"folder": str(folder / "text")},
        "train": {"systems": systems},
        "topics": {"coherence": [5, 10], "samples": 2, **topics},
    }


def make_file(folder: Path, **topics: Any) -> TopicExperiment:
    """Write only the file."""
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment_file(folder, **topics), sort_keys=False), encoding="utf-8")
    return load_config(path)


def make_experiment(folder: Path, **topics: Any) -> TopicExperiment:
    """Write the file and all records below a folder."""
    config = make_file(folder, **topics)
    write_records(config.work_dir, "base", "base", DOMAINS)
    for domain in DOMAINS:
        for name in FIGURES.keys() - {"base"}:
            for seed in ("@1", "@2") if name == "many" else ("",):
                write_records(config.work_dir, f"{name}-{domain}{seed}", name, [domain])
        found = [{"kind": kind, "num_topics": 10, "words": [["a", "b"]], "coherence": {"5": -3.0 - place, "10": -4.0}}
                 for place, kind in enumerate(("lda", "nmf"))]  # fmt: skip
        record = {"lines": 500, "candidates": 60, "topics": found}
        write(config.work_dir / f"topic-baselines/{domain}/baselines.json", record)
    return config


def write_records(work_dir: Path, run: str, name: str, domains: list[str]) -> None:
    """What the step of a run leaves; a second seed is 1.02 times the first."""
    own, base, num_topics = FIGURES[name]
    factor = 1.02 if run.endswith("@2") else 1.0
    metrics = {metric: 10.0 + place + num_part(name) for place, metric in enumerate(METRICS)}
    record = {
        "texts": {
            domain: {
                "lines": LINES, "tokens": TOKENS, "cut": CUT, "nats": nats_of(own * factor, num_topics),
                "metrics": {**metrics, "prompts": 4},
            }
            for domain in domains
        },
        "base": {
            domain: {"lines": 10, "tokens": TOKENS, "nats": nats_of(base * change, num_topics)}
            for domain, change in zip(BASE_DOMAINS, (0.5, 2.0), strict=True)
        },
        "tokens_per_sample": 64,
        "topics": None if num_topics is None else topics_of(name, num_topics),
    }  # fmt: skip
    folder = work_dir / "topics" / run
    write(folder / "topics.json", record)
    samples = [{"text": f"start {n}", "reference": f"rest {n}", "written": f"{run} {n}"} for n in range(4)]
    write(folder / "samples.json", {domain: samples for domain in domains})
    if num_topics is not None:
        texts = [f"by {topic}" for topic in range(num_topics + 1)]
        write(folder / "forced.json", {"text": "start", "reference": "rest", "domain": domains[0], "written": texts})


def nats_of(perplexity: float, num_topics: int | None) -> dict[str, float]:
    found = {"all": TOKENS * math.log(perplexity)}
    return found if num_topics is None else {**found, "0": TOKENS * math.log(perplexity + 5)}


def topics_of(name: str, num_topics: int) -> dict[str, Any]:
    usage = [0.4, *[0.6 / num_topics] * num_topics] if num_topics else [1.0]
    words = [[f"word{topic}{letter}" for letter in "abc"] for topic in range(num_topics + 1)]
    coherence = {"5": -2.0 - num_part(name), "10": -3.0 - num_part(name)}
    return {
        "num_topics": num_topics,
        "lines": 500,
        "candidates": 60,
        "usage": usage,
        "entropy": 1.5,
        "dead": 1 if name == "many-free" else 0,
        "words": {"near": words, "used": words},
        "coherence": {"near": coherence, "used": coherence} if num_topics else {},
    }


def num_part(name: str) -> float:
    """A number that tells systems apart."""
    return list(FIGURES).index(name) / 10


def write(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
