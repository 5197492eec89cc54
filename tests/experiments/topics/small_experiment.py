"""A small experiment with topic models: a base on two domains, and what is adapted to one or the other of two more."""

import random
from pathlib import Path
from typing import Any

from tests.experiments.experiment_file import write_experiment
from tests.experiments.small_lm_experiment import DOMAINS, NOUNS, VERBS

BASE_DOMAINS = ["bank_ask", "bank_do"]
SUBWORDS = 45
_LINES = {"sample-break-mode": "eos", "shorten-method": "truncate", "tokens-per-sample": 8, "max-update": 6}
_TOPICS = {**_LINES, "from": "base", "arch": "transformer_lm_topic_tiny", "criterion": "topic_language_modeling",
           "num-topics": 3, "train-domains": "garden_ask"}  # fmt: skip
SYSTEMS: dict[str, dict[str, Any]] = {
    "base": {"arch": "transformer_lm_tiny", "max-update": 20, "tokens-per-sample": 16,
             "train-domains": ",".join(BASE_DOMAINS)},
    "tuned": {**_LINES, "from": "base", "arch": "transformer_lm_tiny", "max-target-positions": 16,
              "train-domains": "garden_ask"},
    "steered": {**_TOPICS, "max-target-positions": 16},
    "steered-no-tdm": {**_TOPICS, "max-target-positions": 16, "tdm": "none"},
    "output": {**_TOPICS, "max-target-positions": 16, "num-topics": 0, "train-domains": "garden_do"},
}  # fmt: skip
TOPICS = {"topic_words": 6, "coherence": [2, 3], "min_count": 2, "lines": 200, "baseline_topics": [2], "prompts": 5,
          "prompt_words": 2, "max_len": 12, "top_k": 4, "base_lines": 10, "cpu": True}  # fmt: skip


def write_texts(folder: Path) -> None:
    """Write ``text/DOMAIN.txt``, 150 lines each.

    Words come with an ending and without: what is in one word alone is no candidate for a subword.
    """
    rng = random.Random(5)
    (folder / "text").mkdir(parents=True)
    for name in DOMAINS:
        place, kind = name.split("_")
        words = [word + ending for word in (*NOUNS[place], *VERBS[kind]) for ending in ("", "s")]
        lines = [" ".join(rng.choices(words, k=rng.randint(2, 8))) for _ in range(150)]
        (folder / "text" / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_topic_experiment(
    folder: Path, systems: dict[str, dict[str, Any]] = SYSTEMS, topics: Any = TOPICS, **changes: Any
) -> Path:
    """Write texts and the experiment file, and return the latter; it works in ``work`` beside it."""
    if not (folder / "text").exists():
        write_texts(folder)
    common = {"optimizer": "adam", "lr": 0.02, "batch-size": 8, "cpu": True, "num-workers": 0}
    settings = {
        "kind": "topics",
        "work_dir": str(folder / "work"),
        "corpora": {"folder": str(folder / "text")},
        "split": {"valid": 20, "test": 20, "stretch": 10},
        "subwords": {"vocab_size": SUBWORDS},
        "train": {"common": common, "systems": systems},
        "topics": topics,
    }
    return write_experiment(folder / "topics.yaml", settings, changes)
