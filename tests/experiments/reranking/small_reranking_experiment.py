"""A small re-ranking experiment, on the folder of a small translation experiment of two domains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

COMMON = {
    "arch": "dagru_lm_tiny", "optimizer": "sgd", "lr": 1, "lr-scheduler": "fixed", "sentence-avg": True, "clip-norm": 5,
    "criterion": "cross_entropy", "batch-size": 4, "tokens-per-sample": 7, "max-epoch": 2, "cpu": True,
    "num-workers": 0,
}  # fmt: skip
TRANSLATION: dict[str, Any] = {
    "run": "mix", "target_lang": "de", "nbest": 4, "options": {"max-tokens": 400, "cpu": True, "max-len-b": 12},
}  # fmt: skip


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the experiment file; the translation experiment works in ``work`` beside it."""
    settings: dict[str, Any] = {
        "kind": "reranking",
        "work_dir": str(folder / "reranking"),
        "translation": {"work_dir": str(folder / "work"), **TRANSLATION},
        "word_vectors": {"dim": 8, "epochs": 1},
        "kneser_ney": {"order": 2},
        "train": {
            "common": COMMON,
            "systems": {"standard": {"combination": "none", "embed-dim": 8}, "dagru": {}},
        },
        "rerank": {"restarts": 2, "resamples": 50, "cpu": True},
    }
    path = folder / "reranking.yaml"
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path
