"""An experiment with tasks that never ran: its file and the records that its steps would have left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.experiments.classification.config import ClassificationExperiment, load_config

TASKS = {"films": ["neg", "pos"], "questions": ["abbr", "desc", "enty", "hum", "loc", "num"], "irony": ["no", "yes"]}
COUNTS = {"train": 6000, "valid": 800, "test": 1000}
BASE, HEAD = 3_000_000, 40_000
# What each method is above or below full fine-tuning, and how many parameters it trains beyond the head.
GAINS = {"full": 0.0, "top-1": -4.0, "top-2": -1.0, "norms": -6.0, "adapters-8": -1.2, "adapters-64": -0.2}
TRAINED = {
    "full": BASE,
    "top-1": 450_000,
    "top-2": 900_000,
    "norms": 7_000,
    "adapters-8": 37_000,
    "adapters-64": 210_000,
}
FULL = {"films": 0.80, "questions": 0.85, "irony": 0.62}


def experiment_file(folder: Path, **changes: Any) -> dict[str, Any]:
    """The contents of an experiment file with all kinds of systems."""
    task: dict[str, Any] = {"from": "base", "arch": "roberta_houlsby_adapter_small", "batch-size": 32, "max-epoch": 3}
    systems: dict[str, Any] = {
        "base": {"arch": "roberta_small"},
        "full": {**task, "tuning": "full"},
        "top-1": {**task, "tuning": "top", "top-layers": 1},
        "top-2": {**task, "tuning": "top", "top-layers": 2},
        "norms": {**task, "tuning": "norms"},
        "adapters-8": {**task, "bottleneck-dim": 8},
        "adapters-64": {**task, "bottleneck-dim": 64, "seeds": [1, 2]},
    }
    return {
        "kind": "classification",
        "work_dir": str(folder / "runs"),
        "corpora": {"folder": str(folder / "text")},
        "tasks": {name: {"train": f"{name}.tsv", "metrics": ["accuracy", "f1"]} for name in TASKS},
        "train": {"systems": systems},
        "evaluate": changes,
    }


def make_experiment(folder: Path, **changes: Any) -> ClassificationExperiment:
    """Write the file and all records below a folder."""
    config = make_file(folder, **changes)
    predictions = config.work_dir / "predictions"
    for method, gain in GAINS.items():
        for task in TASKS:
            for seed, shift in {"@1": -0.5, "@2": 0.5}.items() if method == "adapters-64" else {"": 0.0}.items():
                record = metrics_of(task, gain + shift, TRAINED[method], is_base="adapters" not in method)
                write(predictions / f"{method}@{task}{seed}" / "metrics.json", record)
    write(config.work_dir / "analysis/differences/differences.json", DIFFERENCES)
    return config


def make_file(folder: Path, **changes: Any) -> ClassificationExperiment:
    """Write only the file."""
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment_file(folder, **changes), sort_keys=False), encoding="utf-8")
    return load_config(path)


def metrics_of(task: str, gain: float, trained: int, *, is_base: bool) -> dict[str, Any]:
    """Accuracy ``gain`` points above full fine-tuning's, F1 two points below that; validation one point above."""
    values = {split: FULL[task] + (gain + more) / 100 for split, more in {"valid": 1.0, "test": 0.0}.items()}
    return {
        "task": task,
        "labels": TASKS[task],
        "counts": COUNTS,
        "metrics": {split: {"accuracy": value, "f1": value - 0.02} for split, value in values.items()},
        "remarks": {"valid": [], "test": []},
        "majority": {"valid": 0.5, "test": 0.52},
        "parameters": {
            "base": BASE,
            "base_trained": trained if is_base and trained != TRAINED["norms"] else 0,
            "head": HEAD,
            "trained": trained + HEAD,
        },
    }


DIFFERENCES = {
    "baseline": "full",
    "resamples": 1000,
    "systems": {
        name: {
            "average": {"difference": gain, "p": 0.001 if gain < -2 else 0.4},
            "tasks": {task: {"difference": gain, "p": 0.002 if gain < -2 else 0.5} for task in TASKS},
        }
        for name, gain in GAINS.items()
        if name != "full"
    },
}


def write(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
