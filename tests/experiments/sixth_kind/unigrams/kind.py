"""How alike domains are: a unigram model of each one's training text, and its perplexity on the test text of all.

Probabilities are those of Laplace, ``(count + smoothing) / (tokens + smoothing · words)``; the words are those of all
training texts and one for whatever else there is.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.engine.stages import Stage
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.inputs.sections import check_numbers, read_section
from fairseq_ext.report.content import Cell, Report, Row, Section, Table
from fairseq_ext.report.records import read_result
from fairseq_ext.report.writing import step_of_report


@dataclass(frozen=True)
class Experiment:
    """The file: ``train`` and ``test`` name a text by domain, ``smoothing`` is added to each word's count."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    train: dict[str, Path]
    test: dict[str, Path]
    smoothing: float = 1.0


def read(content: Mapping[str, Any], path: Path) -> Experiment:
    experiment: Experiment = read_section(Experiment, content, str(path), given={"path": path})
    check_numbers({"smoothing": experiment.smoothing}, str(path))
    return experiment


def prepare(experiment: Experiment, engine: Engine) -> list[Step]:
    def write(folder: Path) -> None:
        for domain, path in experiment.train.items():
            write_lines(folder / domain, (line.lower() for line in read_lines(path)))

    texts = experiment.work_dir / "texts"
    return [Step(texts, list(experiment.train.values()), {"domains": list(experiment.train)}, write)]


def evaluate(experiment: Experiment) -> list[Step]:
    def write(folder: Path) -> None:
        models = {domain: count(experiment.work_dir / "texts" / domain) for domain in experiment.train}
        words = len(set().union(*models.values())) + 1
        tests = {domain: count(path) for domain, path in experiment.test.items()}
        record = {
            name: {test: perplexity(model, tests[test], words, experiment.smoothing) for test in tests}
            for name, model in models.items()
        }
        (folder / "perplexity.json").write_text(json.dumps(record))

    inputs = [experiment.work_dir / "texts", *experiment.test.values()]
    return [Step(experiment.work_dir / "perplexity", inputs, {"smoothing": experiment.smoothing}, write)]


def count(path: Path) -> Counter[str]:
    return Counter(" ".join(read_lines(path)).lower().split())


def perplexity(model: Counter[str], test: Counter[str], words: int, smoothing: float) -> float:
    total = model.total() + smoothing * words
    nats = -sum(number * math.log((model[word] + smoothing) / total) for word, number in test.items())
    return math.exp(nats / test.total())


def report(experiment: Experiment) -> list[Step]:
    file = experiment.work_dir / "perplexity" / "perplexity.json"

    def make() -> Report:
        record = read_result(file) or {}
        best = {test: min(record[model][test] for model in record) for test in experiment.test}
        rows = [Row(m, [Cell(f"{p:.1f}", is_best=p == best[test]) for test, p in record[m].items()]) for m in record]
        table = Table("Perplexity", "model of", list(experiment.test), [("", rows)])
        return Report("Domains as unigrams see them", "", [], [Section("perplexity", "Perplexity", [table])])

    return [step_of_report(experiment.work_dir, [file], None, {"version": 1}, make)]


def stages(experiment: Experiment) -> list[Stage]:
    parts = {"prepare": lambda of: prepare(of, Engine()), "evaluate": evaluate, "report": report}
    return [Stage(name, lambda steps=steps: steps(experiment)) for name, steps in parts.items()]


KIND = Kind(read, prepare, stages)
