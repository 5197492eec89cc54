"""An experiment that never ran: its file and the records that its steps would have left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment

DOMAINS = ["IT", "LAW", "TALK"]
COLUMNS = {"AVG": 4.0, "wAVG": 4.5, "misclassified": -6.0}
SIGNATURES = {"chrF": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0", "BLEU": "nrefs:1|tok:13a"}
RESULTS = "mix", "ft", "ad-oracle", "ad-classifier", "gad", "gad-ce"
GAIN = {"mix": 0.0, "ft": 4.0, "ad-oracle": 3.0, "ad-classifier": 1.5, "gad": 2.5, "gad-ce": -0.4}


def experiment_file(folder: Path, domains: list[str] = DOMAINS, **report: Any) -> dict[str, Any]:
    """The contents of an experiment file; the last output is an ablation."""
    gated = {"from": "mix", "arch": "transformer_gated_adapter", "seeds": [1, 2]}
    return {
        "work_dir": str(folder / "runs"),
        "source_lang": "en",
        "target_lang": "pl",
        "corpora": {"domains": {name: ["x"] for name in domains}},
        "train": {
            "systems": {
                "mix": {"arch": "transformer"},
                "ft": {"from": "mix", "arch": "transformer", "per_domain": True},
                "ad": {"from": "mix", "arch": "transformer_domain_adapter"},
                "gad": gated,
                "gad-ce": gated,
            }
        },
        "translate": {
            "outputs": {
                "mix": {"system": "mix"},
                "ft": {"system": "ft"},
                "ad-oracle": {"system": "ad", "domain-source": "oracle"},
                "ad-classifier": {"system": "ad", "domain-source": "classifier"},
                "gad": {"system": "gad", "domain-source": "none", "gates": True},
                "gad-ce": {"system": "gad-ce", "domain-source": "none", "gates": True},
            }
        },
        "evaluate": {"report": {"ablation": ["gad", "gad-*"], **report}},
    }


def score(mean: float, sd: float | None = None, p: float | None = None) -> dict[str, Any]:
    values = [mean] if sd is None else [mean - sd / 2**0.5, mean + sd / 2**0.5]
    return {"mean": round(mean, 2), "sd": sd, "values": values, "p": p}


def scores_of(domains: list[str], output: str, gain: float, *, ood: list[str], is_told: bool) -> dict[str, Any]:
    """Scores of an output that are ``gain`` above the baseline's everywhere."""
    base = {**{name: 40.0 + 3 * number for number, name in enumerate(domains)}}
    base |= {name: 40.0 + shift for name, shift in COLUMNS.items()}
    base |= {} if is_told else {f"ood:{name}": 30.0 for name in ood}
    sd = 0.25 if output.startswith("gad") else None
    p = None if output == "mix" else 0.001 if abs(gain) > 1 else 0.31
    return {
        "runs": [output] if sd is None else [f"{output}@1", f"{output}@2"],
        "chrF": {column: score(value + gain, sd, p) for column, value in base.items()},
        "BLEU": {column: score(value / 2 + gain, sd, p) for column, value in base.items()},
    }


def make_scores(domains: list[str] = DOMAINS, gains: dict[str, float] = GAIN) -> dict[str, Any]:
    return {
        "signatures": SIGNATURES,
        "domains": domains,
        "train_sizes": {name: 1000 * (number + 1) for number, name in enumerate(domains)},
        "test_sizes": {name: 400 for name in domains},
        "num_misclassified": 120,
        "baseline": "mix",
        "comet": "not run: no model",
        "outputs": {
            name: scores_of(domains, name, gain, ood=["NEWS"], is_told=name in ("ft", "ad-oracle"))
            for name, gain in gains.items()
        },
    }


def make_gates(domains: list[str], num_layers: int = 2) -> dict[str, Any]:
    """Gates that lean to the true domain, the more the later the layer."""
    layers = [f"{side} {layer + 1}" for side in ("encoder", "decoder") for layer in range(num_layers)]
    weights = {}
    for number, name in enumerate(domains):
        rows = []
        for layer in range(len(layers)):
            right = 0.3 + 0.5 * layer / len(layers)
            rows.append([right if d == number else (1 - right) / max(len(domains) - 1, 1) for d in range(len(domains))])
        weights[name] = rows
    shares = np.linspace(0.6, 0.8, len(layers)).round(4).tolist()
    return {
        "domains": domains,
        "layers": layers,
        "weights": weights,
        "agreement": shares,
        "correct": [share - 0.1 for share in shares],
        "teacher_correct": 0.9,
    }


def make_teacher(domains: list[str]) -> dict[str, Any]:
    size = len(domains)
    matrix = (np.eye(size, dtype=int) * 380 + 20 // size).tolist()
    quality = {"sentences": 400, "precision": 0.95, "recall": 0.9, "f1": 0.9243}
    metrics = {"micro_f1": 0.95, "per_domain": {name: quality for name in domains}, "confusion": matrix}
    return {"domains": domains, "backend": "tfidf", "metrics": {split: metrics for split in ("train", "valid", "test")}}


def make_distances(domains: list[str]) -> dict[str, Any]:
    size = len(domains)
    matrix = [[0.0 if i == j else round(1.99 - 0.5 / (1 + abs(i - j)), 4) for j in range(size)] for i in range(size)]
    error = [[None if i == j else 0.1 for j in range(size)] for i in range(size)]
    return {
        "embedding": "TF-IDF, SVD to 100 dimensions",
        "sentences": 900,
        "domains": domains,
        "matrix": matrix,
        "error": error,
    }


def make_parameters(domains: list[str]) -> dict[str, Any]:
    def count(total: int, trained: int, arch: str) -> dict[str, Any]:
        return {"total": total, "trained": trained, "arch": arch}

    gated = count(6_300_000, 1_300_000, "transformer_gated_adapter")
    return {
        "mix": count(5_000_000, 5_000_000, "transformer"),
        **{f"ft@{name}": count(5_000_000, 5_000_000, "transformer") for name in domains},
        "ad": count(6_200_000, 1_200_000, "transformer_domain_adapter"),
        **{f"{name}@{seed}": gated for name in ("gad", "gad-ce") for seed in (1, 2)},
    }


def make_speed(domains: list[str]) -> dict[str, Any]:
    def entry(rate: float, classifier: float) -> dict[str, Any]:
        part = {"sentences": 400, "tokens": 8000, "seconds": 400 / rate, "classifier_seconds": classifier}
        return {
            "domains": {name: part for name in domains},
            "sentences_per_second": rate,
            "tokens_per_second": 20 * rate,
        }

    return {
        "ad-oracle": entry(88.1, 0),
        "ad-classifier": entry(51.6, 1.5),
        "gad": entry(58.65, 0),
        "machine": "a computer, 2 cores",
        "method": "greedy, batches of 64",
    }


def make_experiment(
    folder: Path, domains: list[str] = DOMAINS, text: str = "harmless", **report: Any
) -> TranslationExperiment:
    """Write everything below a folder and read the experiment file.

    Args:
        folder: an empty one.
        domains: of the experiment.
        text: stands in every sentence and, where there are words, in the records.
        report: for ``evaluate: report``.
    """
    config = load(folder, experiment_file(folder, domains, **report))
    work = config.work_dir
    write_json(work / "scores" / "scores.json", make_scores(domains))
    write_json(work / "teacher" / "teacher.json", make_teacher(domains))
    write_json(work / "analysis" / "distances" / "distances.json", make_distances(domains))
    write_json(work / "analysis" / "parameters" / "parameters.json", make_parameters(domains))
    write_json(work / "analysis" / "speed" / "speed.json", {**make_speed(domains), "machine": text})
    gates = {f"{name}@{seed}": make_gates(domains) for name in ("gad", "gad-ce") for seed in (1, 2)}
    write_json(work / "analysis" / "gates" / "gates.json", gates)
    write_sentences(work, domains, text)
    return config


def load(folder: Path, contents: dict[str, Any]) -> TranslationExperiment:
    """Write an experiment file and read it."""
    (folder / "experiment.yaml").write_text(yaml.safe_dump(contents, sort_keys=False), encoding="utf-8")
    return load_config(folder / "experiment.yaml")


def write_sentences(work: Path, domains: list[str], text: str) -> None:
    """Test sets of two sentences, translations of them that differ in the second, and disagreements on both."""
    lines = []
    for name in domains:
        for line in (1, 2):
            choice = {"teacher": domains[-1], "teacher_prob": 0.81234, "gates": name, "gates_weight": 0.6}
            lines.append(json.dumps({"output": "gad@1", "domain": name, "line": line, **choice}))
        write_lines(work / "splits" / name / "test.en", [f"first {text}", f"second {text}"])
        write_lines(work / "splits" / name / "test.pl", [f"pierwszy {text}", f"drugi {text}"])
        for run in ("mix", f"ft@{name}", "ad-oracle", "ad-classifier", "gad@1", "gad@2"):
            write_lines(work / "translations" / run / f"{name}.pl", [f"wszyscy {text}", f"{run} {text}"])
    write_lines(work / "analysis" / "gates" / "disagreements.jsonl", lines)


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_json(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
