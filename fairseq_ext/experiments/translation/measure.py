"""Measurements as records: scores with comparisons, training runs, the classifier, and analyses.

Sets are domains, their averages ``AVG`` and ``wAVG``, ``classifier errors``, further sets as ``test:NAME`` or
``ood:NAME``, and ``general text``, the average over the latter. Shares are in percent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.steps import Step
from fairseq_ext.data.teacher_labels import read_teacher_probs
from fairseq_ext.experiments.metrics.comparison import COMPARISONS_FILE, Comparison, compare_resamples
from fairseq_ext.experiments.metrics.corpus_metrics import CometMetric, CorpusMetric, SacrebleuMetric, text_metrics
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_rows
from fairseq_ext.experiments.translation import comet
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import translation_dir
from fairseq_ext.experiments.translation.examples import EXAMPLES_FILE, METRIC, Translated, examples_of, shares_of
from fairseq_ext.experiments.translation.extra_sets import column_of, extra_dir, sets_dir, sets_for
from fairseq_ext.experiments.translation.sections import OutputRun
from fairseq_ext.experiments.translation.set_scores import (
    ERRORS,
    WEIGHTED_AVERAGE,
    Columns,
    Counts,
    TestSets,
    count_text,
    means,
    score_columns,
)
from fairseq_ext.text.text_files import count_lines, read_lines, read_lines_like

# Metrics, in addition to those of translations.
TRAINING_PAIRS, TEST_SENTENCES, F1, CLASSIFIED = "training pairs", "test sentences", "F1", "classified as"

SIGNATURES_FILE = "signatures.json"
TEACHER_FILE = "teacher/teacher.json"  # relative to the experiment's folder
_VERSION = 8


def teacher_records(config: Translation) -> Iterator[Record]:
    """Yield the quality of the domain classifier, by set and domain."""
    path = config.work_dir / TEACHER_FILE
    teacher = read_json(path, "train the teacher again") if path.is_file() else {"metrics": {}}
    classes = [*teacher.get("domains", ()), BASE_ROUTE]  # few teachers have the last
    for split, scores in teacher["metrics"].items():
        of = partial(Record, dims={"split": split})
        yield of(metric=F1, value=100 * scores["micro_f1"])
        for domain, values in scores["per_domain"].items():
            for metric, key in {F1: "f1", "precision": "precision", "recall": "recall"}.items():
                yield of(domain=domain, metric=metric, value=100 * values[key])
        for domain, row in zip(classes, scores["confusion"], strict=False):
            for other, count in zip(classes, row, strict=False):
                dims = {"split": split, "class": other}
                yield Record(domain=domain, metric=CLASSIFIED, value=count, n=sum(row), dims=dims)


# Scores


class ScoredRun(NamedTuple):
    """A unit with one score per set: a decoding run with one model, or each domain with its own model."""

    name: str  # ``gad``, or ``gad@1`` if there are several; ``ft`` for ``ft@IT``, ``ft@LAW`` …, each on its domain
    seed: int | None  # training seed; None for several training runs
    parts: Sequence[OutputRun]  # the decoding run with each model

    def folders(self, config: Translation) -> list[Path]:
        """Return the folders of its translations, whether or not they exist."""
        extra = [extra_dir(config, part.name) for part in self.parts if sets_for(config, part)]
        return [*(translation_dir(config, part.name) for part in self.parts), *extra]

    def files(self, config: Translation, tests: TestSets) -> dict[str, Path]:
        """Return the existing translations by test set."""
        files: dict[str, Path] = {}
        for part in self.parts:
            folder, extra = translation_dir(config, part.name), extra_dir(config, part.name)
            only = part.run.domain if part.name != self.name else None
            files |= {name: folder / f"{name}.{config.target_lang}" for name in ([only] if only else tests.domains)}
            further = [name for name in sets_for(config, part) if only in (None, config.evaluate.sets[name])]
            files |= {column_of(config, name): extra / f"{name}.{config.target_lang}" for name in further}
        return {name: path for name, path in files.items() if path.parent.is_dir() and name in tests.references}


def runs_to_score(config: Translation) -> dict[str, list[ScoredRun]]:
    """Return the units to score of each decoding run, whether or not they are translated.

    With ``evaluate: forgetting``, each model of one domain is also a decoding run of its own, on all sets.
    """
    units: dict[str, list[ScoredRun]] = {}
    for output in config.outputs:
        single = [ScoredRun(run.name, run.run.seed, [run]) for run in config.output_runs(output)]
        if not config.outputs[output].system.per_domain:
            units[output] = single
            continue
        units[output] = [ScoredRun(output, None, config.output_runs(output))]
        units |= {unit.name: [unit] for unit in single if config.evaluate.forgetting}
    return units


def read_tests(config: Translation, extra: Sequence[str] = ()) -> TestSets:
    """Read the test sets of an experiment; ``extra`` are the names of further sets in the experiment file."""
    splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"
    domains, (source, target) = read_domain_names(splits / DOMAINS_FILE), config.langs
    stems = {name: splits / name / "test" for name in domains}
    stems |= {column_of(config, name): sets_dir(config) / name for name in extra}
    files = {name: stem.with_name(f"{stem.name}.{target}") for name, stem in stems.items()}
    lines = {name: read_lines(path) for name, path in files.items()}
    sources = {
        name: read_lines_like(stem.with_name(f"{stem.name}.{source}"), lines[name], files[name])
        for name, stem in stems.items()
    }
    train_sizes = {name: count_lines(splits / name / f"train.{target}") for name in domains}
    errors = {
        name: read_teacher_probs(teacher, name, "test", domains, len(lines[name])).best() != number
        for number, name in enumerate(domains if teacher.exists() else [])
    }
    general = [column_of(config, name) for name in extra if name in config.evaluate.ood]
    return TestSets(domains, sources, lines, files, train_sizes, errors or None, general)


def scoring_step(config: Translation) -> Step:
    """Return the step that scores existing translations. Call it after the translation steps have run."""
    units = runs_to_score(config)
    folders = dict.fromkeys(path for runs in units.values() for run in runs for path in run.folders(config))
    translated = [path for path in folders if path.is_dir()]
    missing = [f"{path.parent.name}/{path.name}" for path in folders if path not in translated]
    existing = {run.name for runs in units.values() for run in runs if any(map(Path.is_dir, run.folders(config)))}
    runs = {output: [run for run in runs if run.name in existing] for output, runs in units.items()}
    runs = {output: existing for output, existing in runs.items() if existing}
    extra = [name for name in config.evaluate.sets if (sets_dir(config) / f"{name}.{config.target_lang}").is_file()]
    of_text, pairs = text_metrics(config.evaluate.metrics, config.target_lang), tested_pairs(config)
    checkpoint = comet.checkpoint_of(config.evaluate.comet, f"{config.path}: evaluate: comet")
    teacher = config.work_dir / "teacher"
    inputs = [config.work_dir / "splits", *([teacher] if teacher.exists() else []), *translated]
    inputs += [sets_dir(config)] if extra else []
    options = {
        "version": _VERSION,
        "runs": {output: [run.name for run in units] for output, units in runs.items()},
        "folders": [path.name for path in translated],
        "missing": missing,
        "extra": [column_of(config, name) for name in extra],
        "pairs": pairs,
        "reference": config.reference,
        "resamples": config.evaluate.resamples,
        "seed": config.seed,
        "comet": comet.model_digest(checkpoint) if checkpoint else None,
        "signatures": {name: metric.signature for name, metric in of_text.items()},
    }

    def build(folder: Path) -> None:
        if missing:
            print(f"scores: omits {', '.join(missing)}, which do not exist yet", file=sys.stderr)
        if not runs:
            raise InputError(f"{config.path}: nothing is translated yet; run fairseq-ext decode first")
        tests = read_tests(config, extra)
        files = {run.name: run.files(config, tests) for units in runs.values() for run in units}
        texts = {run: read_translations(paths, tests) for run, paths in files.items()}
        metrics, counts = _count(config, files, texts, tests, of_text, checkpoint)
        columns: RunColumns = {}
        for name, metric in metrics.items():
            score = partial(
                score_columns, metric=metric, tests=tests, resamples=config.evaluate.resamples, seed=config.seed
            )
            columns[name] = {output: [score(counts[name][run.name]) for run in units] for output, units in runs.items()}
        sentences = _sentences(runs, texts, counts, tests)
        base = sentences.pop(config.reference, None)
        compared = [(name, run, base) for name, run in sentences.items()] if base else []
        shares = [record for pair in compared for record in shares_of(*pair)]
        write_rows(folder / RECORDS_FILE, [*size_records(tests), *score_records(runs, columns, tests), *shares])
        write_rows(folder / COMPARISONS_FILE, compare_outputs(columns, pairs, tests))
        write_rows(folder / EXAMPLES_FILE, (example for pair in compared for example in examples_of(*pair, tests)))
        write_json(folder / SIGNATURES_FILE, {name: metric.signature for name, metric in metrics.items()})

    return Step(config.work_dir / "scores", inputs=inputs, options=options, build=build)


def tested_pairs(config: Translation) -> dict[str, list[str]]:
    """Return the baselines of each decoding run, including all base models, which the recommendation needs."""
    bases = [*filter(None, [config.reference]), *config.plain_outputs]
    return {
        name: [other for other in dict.fromkeys([*config.pairs.get(name, ()), *bases]) if other != name]
        for name in runs_to_score(config)
    }


def read_translations(files: Mapping[str, Path], tests: TestSets) -> dict[str, Sequence[str]]:
    """Read the translations of a run, by test set."""
    return {name: read_lines_like(path, tests.references[name], tests.files[name]) for name, path in files.items()}


def _count(
    config: Translation,
    files: Mapping[str, Mapping[str, Path]],
    texts: Mapping[str, Mapping[str, Sequence[str]]],
    tests: TestSets,
    of_text: Mapping[str, SacrebleuMetric],
    checkpoint: Path | None,
) -> tuple[dict[str, CorpusMetric], dict[str, dict[str, Counts]]]:
    """Return metrics by name, and sentence statistics by metric and run."""
    counts = count_text(of_text, texts, tests)
    if checkpoint is None:
        return {**of_text}, counts
    version = ""
    for run, paths in files.items():
        scores, version = comet.score_run(config.work_dir / "comet" / run, checkpoint, paths, texts[run], tests)
        counts.setdefault("COMET", {})[run] = {name: CometMetric.count(values) for name, values in scores.items()}
    return {**of_text, "COMET": CometMetric(comet.model_name(checkpoint), version)}, counts


def _sentences(
    runs: Mapping[str, Sequence[ScoredRun]],
    texts: Mapping[str, Mapping[str, Sequence[str]]],
    counts: Mapping[str, Mapping[str, Counts]],
    tests: TestSets,
) -> dict[str, Translated]:
    """Return the first run of each output that translates all domains, for sentence-level comparisons."""
    metric, translated = text_metrics([METRIC]), dict[str, Translated]()
    by_run = counts.get(METRIC) or count_text(metric, texts, tests)[METRIC]
    for output, (first, *_) in runs.items():
        sets = by_run[first.name]
        if all(name in sets for name in tests.domains):
            scores = {name: np.array([*map(metric[METRIC].score, sets[name].tolist())]) for name in tests.domains}
            translated[output] = Translated(texts[first.name], scores)
    return translated


RunColumns = dict[str, dict[str, list[Columns]]]  # by metric and output, the columns of each run


def size_records(tests: TestSets) -> Iterator[Record]:
    """Yield the sizes of training and test sets."""
    for domain in tests.domains:
        yield Record(domain=domain, metric=TRAINING_PAIRS, value=tests.train_sizes[domain])
        yield Record(domain=domain, metric=TEST_SENTENCES, value=tests.sizes[domain])
    if tests.errors is not None:
        yield Record(domain=ERRORS, metric=TEST_SENTENCES, value=tests.num_errors)


def score_records(runs: Mapping[str, Sequence[ScoredRun]], scores: RunColumns, tests: TestSets) -> Iterator[Record]:
    """Yield the scores of each run on the sets that all runs of the same output translate."""
    for metric, outputs in scores.items():
        for output, of_runs in outputs.items():
            shared = means(of_runs)
            for run, columns in zip(runs[output], of_runs, strict=True):
                of = partial(Record, system=output, run=run.name, seed=run.seed, metric=metric)
                for name in shared:
                    yield of(domain=name, value=float(columns[name][0]), n=tests.sizes[name])


def compare_outputs(scores: RunColumns, pairs: Mapping[str, Sequence[str]], tests: TestSets) -> Iterator[Comparison]:
    """Compare outputs by their means over runs, on every set that both translate.

    The interval and p generalise to other sentences of the same kind, translated by the same runs. The standard
    deviation over runs shows the variation between training runs.
    """
    compared = [(output, baseline) for output, baselines in pairs.items() for baseline in baselines]
    for metric, outputs in scores.items():
        average = {output: means(of_runs) for output, of_runs in outputs.items()}
        for output, baseline in compared:
            one, other = average.get(output, {}), average.get(baseline, {})
            for column in one:
                if column in other and column != WEIGHTED_AVERAGE:
                    differences, size = one[column] - other[column], tests.sizes[column]
                    yield compare_resamples(output, baseline, metric, column, differences, size)
