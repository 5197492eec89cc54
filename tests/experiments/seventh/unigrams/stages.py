"""How alike domains are: a unigram model of each one's training text, and its perplexity on the test text of all.

Laplace smoothing: ``(count + 1) / (tokens + words)``; the words are those of all training texts and one more for
unknown ones.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_ext.base.jobs import Engine
from fairseq_ext.base.sections import File
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.registry import Recipe
from fairseq_ext.experiments.report import measure_step, measured, records_files, report_step
from fairseq_ext.text.text_files import read_lines, write_lines


class Unigrams(Experiment):
    """Texts by domain."""

    training: dict[str, File]
    test: dict[str, File]


def prepare(config: Unigrams, engine: Engine | None = None) -> list[Step]:
    def write(folder: Path) -> None:
        for domain, path in config.training.items():
            write_lines(folder / domain, (line.lower() for line in read_lines(path)))

    texts = list(config.training.values())
    return [Step(config.work_dir / "texts", texts, {"domains": list(config.training)}, write)]


def evaluate(config: Unigrams) -> list[Step]:
    def measure() -> Iterator[Record]:
        models = {domain: count(config.work_dir / "texts" / domain) for domain in config.training}
        words = len(set().union(*models.values())) + 1
        for name, model in models.items():
            for domain, path in config.test.items():
                test = count(path)
                value = perplexity(model, test, words)
                yield Record(system=name, run=name, domain=domain, metric="perplexity", value=value, n=test.total())

    inputs = [config.work_dir / "texts", *config.test.values()]
    return [measure_step(config.work_dir / "perplexity", inputs, {}, measure)]


def count(path: Path) -> Counter[str]:
    return Counter(" ".join(read_lines(path)).lower().split())


def perplexity(model: Counter[str], test: Counter[str], words: int) -> float:
    total = model.total() + words
    nats = -sum(number * math.log((model[word] + 1) / total) for word, number in test.items())
    return math.exp(nats / test.total())


def report(config: Unigrams) -> list[Step]:
    def page(records: Records) -> Page:
        columns = [
            Column(domain, lambda row, domain=domain: records.mean(row, "perplexity", domain), ".1f", best=min)
            for domain in config.test
        ]
        table = Table("Perplexity by test text", "Model of", records.systems("perplexity"), columns)
        return Page("Unigrams", "Perplexity of unigram models by domain.", {"Perplexity": [table]})

    steps = evaluate(config)
    return [report_step(config, records_files(steps), 1, lambda: Records(measured(steps)), page)]


def stages(config: Unigrams) -> list[Stage]:
    parts = {"prepare": prepare, "evaluate": evaluate, "report": report}
    return [Stage(name, lambda steps=steps: steps(config)) for name, steps in parts.items()]


RECIPE = Recipe(Unigrams, prepare, stages)
