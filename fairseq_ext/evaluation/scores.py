"""BLEU and chrF of an experiment's translations: by domain, averaged, and where the classifier is wrong."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.pipeline.steps import Step, run_steps
from fairseq_ext.pipeline.translation import outputs_of, translation_dir
from fairseq_ext.teacher.labels import load_probs

SCORES_FILE = "scores.json"
TABLE_FILE = "table.md"
PICTURE_FILE = "chrf.png"
METRICS = {"chrF": CHRF, "BLEU": BLEU}


@dataclass(frozen=True)
class TestSets:
    """The references, the classifier's mistakes and the weights of the averages, by domain.

    Attributes:
        references: N lines a domain.
        is_misclassified: N truth values a domain; None without a teacher.
        train_sizes: training sentences, the weights of wAVG.
    """

    references: dict[str, list[str]]
    is_misclassified: dict[str, np.ndarray] | None
    train_sizes: dict[str, int]

    @classmethod
    def of(cls, config: ExperimentConfig) -> TestSets:
        splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"
        domains = read_domain_names(splits / DOMAINS_FILE)
        lang = config.target_lang
        wrong = None
        if teacher.exists():
            predicted = [load_probs(teacher / name / "test.npy", len(domains)).argmax(1) for name in domains]
            wrong = {name: guess != number for number, (name, guess) in enumerate(zip(domains, predicted, strict=True))}
        return cls(
            {name: read_lines(splits / name / f"test.{lang}") for name in domains},
            wrong,
            {name: len(read_lines(splits / name / f"train.{lang}")) for name in domains},
        )


def score_output(hypotheses: Mapping[str, Sequence[str]], tests: TestSets) -> dict[str, dict[str, float]]:
    """All figures of one set of translations.

    Returns:
        ``metric: {domain: score, …, "AVG", "wAVG", "misclassified"}``. AVG is the plain average over
        domains, wAVG the one weighted by training sentences (Klimaszewski et al. 2023, Table 4), and
        misclassified one corpus of all test sentences that the classifier takes for another domain's.
    """
    scores = {}
    for metric_name, metric in METRICS.items():
        by_domain = {
            name: metric().corpus_score(hypotheses[name], [references]).score
            for name, references in tests.references.items()
        }
        values, weights = list(by_domain.values()), [tests.train_sizes[name] for name in by_domain]
        row = {**by_domain, "AVG": float(np.mean(values)), "wAVG": float(np.average(values, weights=weights))}
        pairs = misclassified_pairs(hypotheses, tests)
        if pairs:
            row["misclassified"] = metric().corpus_score([h for h, _ in pairs], [[r for _, r in pairs]]).score
        scores[metric_name] = {name: round(value, 2) for name, value in row.items()}
    return scores


def misclassified_pairs(hypotheses: Mapping[str, Sequence[str]], tests: TestSets) -> list[tuple[str, str]]:
    """Hypothesis and reference of every test sentence whose domain the classifier gets wrong."""
    if tests.is_misclassified is None:
        return []
    return [
        (hypothesis, reference)
        for name, wrong in tests.is_misclassified.items()
        for hypothesis, reference, is_wrong in zip(hypotheses[name], tests.references[name], wrong, strict=True)
        if is_wrong
    ]


def signatures() -> dict[str, str]:
    """sacrebleu's signatures, without which scores cannot be compared."""
    signatures = {}
    for name, metric in METRICS.items():
        scorer = metric()
        scorer.corpus_score(["a"], [["a"]])
        signatures[name] = str(scorer.get_signature())
    return signatures


def format_table(scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A Markdown table a metric, one row a system, the best figure of each column in bold."""
    tables = []
    for metric in METRICS:
        rows = {output: figures[metric] for output, figures in scores.items()}
        columns = list(next(iter(rows.values())))
        best = {column: max(row[column] for row in rows.values()) for column in columns}
        lines = [f"| {metric} | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for output, row in rows.items():
            cells = (f"**{row[c]:.1f}**" if row[c] == best[c] else f"{row[c]:.1f}" for c in columns)
            lines.append(f"| {output} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables) + "\n"


def plot_gains(scores: Mapping[str, Mapping[str, Mapping[str, float]]], path: Path) -> None:
    """Draw what every system gains in chrF over the first one, by column of the table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    baseline, *others = scores
    columns = list(scores[baseline]["chrF"])
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    width = 0.8 / max(len(others), 1)
    for number, output in enumerate(others):
        gains = [scores[output]["chrF"][c] - scores[baseline]["chrF"][c] for c in columns]
        places = np.arange(len(columns)) + (number - (len(others) - 1) / 2) * width
        axes.bar(places, gains, width, label=output)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(columns)), columns, rotation=20)
    axes.set_ylabel(f"chrF points over {baseline}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(others))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def scoring_step(config: ExperimentConfig) -> Step:
    """The step that scores all translations of an experiment that have been made."""
    names = [name for name in outputs_of(config) if translation_dir(config, name).is_dir()]
    splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"
    inputs = [
        splits,
        *([teacher] if teacher.exists() else []),
        *(translation_dir(config, name) for name in names),
    ]

    def build(folder: Path) -> None:
        tests = TestSets.of(config)
        scores: dict[str, Any] = {}
        for name in names:
            translated = translation_dir(config, name)
            hypotheses = {d: read_lines(translated / f"{d}.{config.target_lang}") for d in tests.references}
            scores[name] = score_output(hypotheses, tests)
        record = {"signatures": signatures(), "scores": scores}
        (folder / SCORES_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (folder / TABLE_FILE).write_text(format_table(scores), encoding="utf-8")
        if len(scores) > 1:
            plot_gains(scores, folder / PICTURE_FILE)

    return Step(config.work_dir / "scores", inputs=inputs, options={"outputs": names}, build=build)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/score.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/score.sh",
        description="Score the translations of an experiment (sacrebleu: chrF and BLEU) and print the table.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    config = load_config(parser.parse_args(arguments).config)
    step = scoring_step(config)
    run_steps([step])
    print((step.output / TABLE_FILE).read_text(encoding="utf-8"), end="")
    for metric, signature in json.loads((step.output / SCORES_FILE).read_text(encoding="utf-8"))["signatures"].items():
        print(f"{metric}: {signature}", file=sys.stderr)


if __name__ == "__main__":
    main()
