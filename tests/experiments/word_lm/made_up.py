"""An experiment with word language models that never ran: its file and the records that its steps would have left."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.experiments.word_lm.config import WordLmExperiment, load_config

TOKENS = {"valid": 1000, "test": 2000}
# Perplexity on the test set; that of the validation set is a tenth higher.
TEST = {"kneser-ney": 140.0, "standard": 100.0, "wvs": 95.0, "cvs": 96.0, "dagru@1": 90.0, "dagru@2": 94.0}
SYSTEMS: dict[str, dict[str, Any]] = {
    "standard": {"combination": "none"},
    "wvs": {"combination": "wvs"},
    "cvs": {"combination": "cvs"},
    "wvc": {"combination": "wvc"},  # was not trained
    "dagru": {"seeds": [1, 2]},
}


def make_experiment(folder: Path) -> WordLmExperiment:
    """Write the file and the records, and read the file."""
    work = folder / "work"
    for run, perplexity in TEST.items():
        sets = {
            split: {"nats": tokens * math.log(perplexity * (1.1 if split == "valid" else 1)), "tokens": tokens}
            for split, tokens in TOKENS.items()
        }
        write_json(work / "perplexity" / run / "perplexity.json", {"sets": sets, "parameters": 1234567})
        if run != "kneser-ney":
            log = work / "systems" / run / "train.log"
            log.parent.mkdir(parents=True)
            log.write_text(log_text([1000.0, perplexity * 1.3, perplexity * 1.1, perplexity * 1.2]), encoding="utf-8")
    vectors = {"dimension": 25, "found": 90, "missing": 10, "coverage": 0.875, "missing_words": ["n't", "u.s."]}
    write_json(work / "word-vectors/coverage.json", {"vectors/glove.txt": vectors})
    counts = {split: {"lines": 10, "tokens": 1000, "unknown": 0} for split in ("train", "valid", "test")}
    counts["train"]["words"] = 100
    write_json(work / "text/counts.json", counts)
    return load_config(write_file(folder))


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the experiment file."""
    settings: dict[str, Any] = {
        "kind": "word_lm",
        "work_dir": str(folder / "work"),
        "corpora": {split: str(folder / f"{split}.txt") for split in ("train", "valid", "test")},
        "word_vectors": {"file": "vectors/glove.txt"},
        "kneser_ney": {"order": 5},
        "train": {"common": {"arch": "dagru_lm_tiny"}, "systems": SYSTEMS},
    }
    path = folder / "words.yaml"
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path


def log_text(perplexities: list[float]) -> str:
    """What fairseq logs at the ends of epochs."""
    lines = []
    for epoch, perplexity in enumerate(perplexities, start=1):
        lines += [
            f"2026-01-01 00:00:00 | INFO | train_inner | epoch {epoch:03d}:    100 / 200 loss=9.1, ppl=550.1, wall=9",
            f"2026-01-01 00:00:00 | INFO | valid | epoch {epoch:03d} | valid on 'valid' subset | loss 250.1 | nll_loss "
            f"6.1 | ppl {perplexity:g} | wps 9000 | wpb 800 | bsz 20 | num_updates {100 * epoch} | best_loss 250.1",
            f"2026-01-01 00:00:00 | INFO | train | epoch {epoch:03d} | loss 260.1 | nll_loss 6.3 | ppl 70.5 | wps 9000 "
            f"| ups 11 | lr 1 | gnorm 1.2 | clip 0 | train_wall 40 | wall {50 * epoch}",
        ]
    return "\n".join(lines) + "\n"


def write_json(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
