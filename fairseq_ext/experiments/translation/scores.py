"""Scores of an experiment's translations: by domain, averaged, where the classifier is wrong, and on further sets."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation import comet
from fairseq_ext.experiments.translation.comparisons import compare
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.convergence import read_curves, warnings_of
from fairseq_ext.experiments.translation.experiment import AVERAGE, TranslationExperiment
from fairseq_ext.experiments.translation.extra_sets import TEST, column_of, sets_dir
from fairseq_ext.experiments.translation.output_runs import ScoredRun, find_runs, read_translations
from fairseq_ext.experiments.translation.pictures import draw_gains
from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.experiments.translation.test_sets import TestSets
from fairseq_ext.experiments.translation.verdict import recommend
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.metrics.bootstrap import MIN_SENTENCES, average, p_value, resampled_sums
from fairseq_ext.metrics.corpus_metrics import CometMetric, CorpusMetric, TextMetric, text_metrics
from fairseq_ext.report.score_tables import format_table
from fairseq_ext.report.writing import write_picture

SCORES_FILE = "scores.json"
TABLE_FILE = "table.md"
POOL = "misclassified"

Counts = Mapping[str, np.ndarray]  # N×S of a metric by test set, see corpus_metrics
Columns = dict[str, np.ndarray]  # by column the score, then that of each of R resamples: 1+R


def count_text(
    metrics: Mapping[str, TextMetric], translations: Sequence[Mapping[str, Sequence[str]]], tests: TestSets
) -> dict[str, list[Counts]]:
    """Count what metrics need.

    Args:
        metrics: by name.
        translations: of every run its lines by test set.
        tests: the references.

    Returns:
        by metric and run the counts by test set.
    """
    counts: dict[str, list[dict[str, np.ndarray]]] = {}
    for metric_name, metric in metrics.items():
        runs = counts[metric_name] = [{} for _ in translations]
        for name, references in tests.references.items():
            having = [number for number, lines in enumerate(translations) if name in lines]
            counted = metric.count([translations[number][name] for number in having], references)
            for number, array in zip(having, counted, strict=True):
                runs[number][name] = array
    return {name: list(runs) for name, runs in counts.items()}


def score_columns(
    runs: Sequence[Counts], metric: CorpusMetric, tests: TestSets, resamples: int = 0, seed: int = 1
) -> list[Columns]:
    """All columns of the table for every run, on the test sentences and on R resamples of them.

    AVG is the plain average over domains, wAVG the one weighted by training sentences (Klimaszewski et al. 2023, Table
    4), and misclassified one corpus of all test sentences that the classifier takes for another domain's. Sentences are
    drawn within each test set, all of them in each resample of an average, and the same for all runs. A run that lacks
    a domain has neither averages nor misclassified. ``test:AVG`` is the plain average over the user's own test sets,
    where there are several.

    Shape:
        result: of every run, by column, 1+R; 1 where sentences are too few
    """
    runs = [_with_pool(run, tests) for run in runs]
    found: list[Columns] = [{} for _ in runs]
    for name in [*tests.domains, POOL, *tests.extra]:
        having = [number for number, run in enumerate(runs) if name in run]
        if not having:
            continue
        # By name, so that a set more or less changes nothing for the others.
        sums = resampled_sums(np.hstack([runs[number][name] for number in having]), resamples, [seed, *name.encode()])
        for number, own in zip(having, np.split(sums, len(having), axis=1), strict=True):
            found[number][name] = np.array([metric.score(row) for row in own.tolist()])
    return [_with_averages(columns, tests) for columns in found]


def _with_pool(run: Counts, tests: TestSets) -> Counts:
    if not tests.num_misclassified or not run.keys() >= set(tests.domains):
        return run
    wrong = tests.is_misclassified or {}
    return {**run, POOL: np.concatenate([run[name][wrong[name]] for name in tests.domains])}


def _with_averages(columns: Columns, tests: TestSets) -> Columns:
    columns = {**columns, **_own_average(columns, tests)}
    domains = {name: columns[name] for name in tests.domains if name in columns}
    if len(domains) < len(tests.domains):
        return columns
    values, weights = list(domains.values()), [tests.train_sizes[name] for name in domains]
    averages = {"AVG": average(values), "wAVG": average(values, weights)}
    return {**domains, **averages, **{name: column for name, column in columns.items() if name not in domains}}


def _own_average(columns: Columns, tests: TestSets) -> Columns:
    own = [name for name in tests.extra if name.startswith(TEST)]
    if len(own) < 2 or not columns.keys() >= set(own):
        return {}
    return {f"{TEST}{AVERAGE}": average([columns[name] for name in own])}


def summarise(runs: Sequence[Columns], baseline: Sequence[Columns] | None) -> dict[str, dict[str, Any]]:
    """The figures of one output: mean and sample standard deviation over runs, and p against the baseline.

    What is compared on each resample are the means over runs. So the test is about other sentences, translated by these
    very runs; how much trainings differ is what the standard deviation says.

    Args:
        runs: the columns of every run of the output; those that not all have are left out.
        baseline: the same for the baseline; None for no comparison.
    """
    figures = {}
    for column in [name for name in runs[0] if all(name in run for run in runs)]:
        values = np.stack([run[column] for run in runs])
        sd = round(float(values[:, 0].std(ddof=1)), 2) if len(runs) > 1 else None
        p = None
        if baseline and all(column in run for run in baseline):
            other = np.mean([run[column] for run in baseline], axis=0)
            p = p_value((values.mean(axis=0) - other)[1:])
        scores = values[:, 0].tolist()
        figures[column] = {"mean": round(float(values[:, 0].mean()), 2), "sd": sd, "values": scores, "p": p}
    return figures


def score_outputs(
    names: Mapping[str, Sequence[str]],
    counts: Mapping[str, Sequence[Counts]],
    metrics: Mapping[str, CorpusMetric],
    tests: TestSets,
    *,
    baseline: str,
    resamples: int,
    seed: int,
    others: Sequence[str] = (),
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """The entries ``outputs`` and ``comparisons`` of scores.json.

    Args:
        names: the names of every output's runs.
        counts: by metric, the counts of all runs in the order of ``names``.
        metrics: by name.
        tests: the test sets.
        baseline: output that the others are compared with, if it is among them.
        resamples: R.
        seed: of the resamples.
        others: further outputs to compare with.
    """
    comparisons: dict[str, dict[str, Any]] = {}
    outputs: dict[str, dict[str, Any]] = {output: {"runs": list(runs)} for output, runs in names.items()}
    for metric_name, metric in metrics.items():
        columns = iter(score_columns(counts[metric_name], metric, tests, resamples, seed))
        by_output = {output: [next(columns) for _ in runs] for output, runs in names.items()}
        for output, runs in by_output.items():
            other = None if output == baseline else by_output.get(baseline)
            outputs[output][metric_name] = summarise(runs, other)
        baselines = [name for name in dict.fromkeys([baseline, *others]) if name in by_output]
        comparisons[metric_name] = {name: compare(by_output, name, metric_name) for name in baselines}
    return outputs, comparisons


def scoring_step(config: TranslationExperiment) -> Step:
    """The step that scores all translations of an experiment that have been made; call it when they have been.

    Raises:
        InputError: if the experiment's COMET model is not there.
    """
    expected = find_runs(config)
    runs = {output: made for output, found in expected.items() if (made := [r for r in found if r.folders(config)])}
    extra = [name for name in config.evaluate.sets if (sets_dir(config) / f"{name}.{config.target_lang}").is_file()]
    missing = [name for found in expected.values() for run in found for name in run.missing(config)]
    checkpoint = comet.checkpoint_of(config)
    design = Design.of(config)
    teacher = config.work_dir / "teacher"
    folders = {folder: folder.name for found in runs.values() for run in found for folder in run.folders(config)}
    inputs = [config.work_dir / "splits", *([teacher] if teacher.exists() else []), *folders]
    inputs += [sets_dir(config)] if extra else []
    options = {
        "version": 5,
        "runs": {output: [run.name for run in found] for output, found in runs.items()},
        "folders": list(folders.values()),
        "missing": missing,
        "extra": [column_of(config, name) for name in extra],
        "baseline": config.evaluate.baseline,
        "compare": _others(config),
        "resamples": config.evaluate.resamples,
        "seed": config.seed,
        "comet": comet.model_digest(checkpoint) if checkpoint else None,
        "signatures": {name: metric.signature for name, metric in _text_metrics(config).items()},
    }

    def build(folder: Path) -> None:
        if missing:
            print(f"scores: without {', '.join(missing)}, which are not there yet", file=sys.stderr)
        record = score_experiment(config, runs, TestSets.of(config, extra)) | {"missing": missing}
        (folder / SCORES_FILE).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        advice = recommend(Results(scores=record), design, warnings_of(config, read_curves(config)))
        table = "\n".join(filter(None, [format_table(record), advice and f"{advice}\n"]))
        (folder / TABLE_FILE).write_text(table, encoding="utf-8")
        if picture := draw_gains(Results(scores=record), design):
            write_picture(folder, picture)

    return Step(config.work_dir / "scores", inputs=inputs, options=options, build=build)


def _others(config: TranslationExperiment) -> list[str]:
    """What all outputs are compared with beside the baseline: what the file names, and all base models."""
    plain = Design.of(config).plain
    return list(dict.fromkeys([*config.evaluate.compare, *(name for name in config.outputs if name in plain)]))


def _text_metrics(config: TranslationExperiment) -> dict[str, TextMetric]:
    return text_metrics(config.evaluate.metrics, config.target_lang)


def score_experiment(
    config: TranslationExperiment, runs: Mapping[str, Sequence[ScoredRun]], tests: TestSets
) -> dict[str, Any]:
    """Score what has been translated; the result is what scores.json holds.

    Raises:
        InputError: if nothing has, or something does not fit the test sets.
    """
    if not runs:
        raise InputError(f"{config.path}: nothing is translated yet; run scripts/translate.sh first")
    baseline, resamples, seed = config.evaluate.baseline or "", config.evaluate.resamples, config.seed
    files = {run.name: run.files(config, tests) for found in runs.values() for run in found}
    translations = {run: read_translations(paths, tests) for run, paths in files.items()}
    of_text = _text_metrics(config)
    counts = count_text(of_text, list(translations.values()), tests)
    metrics: dict[str, CorpusMetric] = {**of_text}
    if checkpoint := comet.checkpoint_of(config):
        scored = [comet.score_run(config, run, paths, translations[run], tests) for run, paths in files.items()]
        counts["COMET"] = [{name: CometMetric.count(values) for name, values in run.scores.items()} for run in scored]
        metrics["COMET"] = CometMetric(comet.model_name(checkpoint), scored[0].version)
    names = {output: [run.name for run in found] for output, found in runs.items()}
    others = _others(config)
    outputs, comparisons = score_outputs(
        names, counts, metrics, tests, baseline=baseline, resamples=resamples, seed=seed, others=others
    )
    return {
        "signatures": {name: metric.signature for name, metric in metrics.items()},
        "domains": tests.domains,
        "train_sizes": tests.train_sizes,
        "test_sizes": {name: len(tests.references[name]) for name in tests.domains},
        "extra_sizes": {name: len(tests.references[name]) for name in tests.extra},
        "num_misclassified": tests.num_misclassified if tests.is_misclassified else None,
        "baseline": baseline,
        "significance": f"paired bootstrap, {resamples} resamples, two-sided, means over runs, seed {seed}; "
        f"not corrected for the number of comparisons; fewer than {MIN_SENTENCES} sentences are not tested",
        "comet": comet.model_name(checkpoint) if checkpoint else comet.NOT_RUN,
        "outputs": outputs,
        "comparisons": comparisons,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/score.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/score.sh",
        description="Score the translations of an experiment that have been made (sacrebleu: chrF and BLEU, or what "
        "evaluate: metrics names; COMET if evaluate: comet names a local model) and print the table.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    step = scoring_step(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    if options.dry_run:
        return
    print((step.output / TABLE_FILE).read_text(encoding="utf-8"), end="")
    for metric, signature in json.loads((step.output / SCORES_FILE).read_text(encoding="utf-8"))["signatures"].items():
        print(f"{metric}: {signature}", file=sys.stderr)


if __name__ == "__main__":
    run_command(main)
