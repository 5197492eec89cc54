"""How alike domains are: a unigram model of each one's training text, and its perplexity on the test text of all.

Laplace smoothing: ``(count + 1) / (tokens + words)``; the words are those of all training texts and one more for
unknown ones.
"""

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from fairseq_ext.base.jobs import THIS_MACHINE, Engine
from fairseq_ext.base.sections import File
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Experiment
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.metrics.tables import Table
from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.report import measure_step, metric_column
from fairseq_ext.text.text_files import read_lines, write_lines


class Unigrams(Experiment):
    """Texts by domain."""

    training: dict[str, File]
    test: dict[str, File]


class UnigramsRecipe(Recipe[Unigrams]):
    experiment_type = Unigrams

    def prepare(self, engine: Engine = THIS_MACHINE) -> list[Step]:
        texts = self.experiment.training

        def write(folder: Path) -> None:
            for domain, path in texts.items():
                write_lines(folder / domain, (line.lower() for line in read_lines(path)))

        return [Step(self.experiment.work_dir / "texts", list(texts.values()), {"domains": list(texts)}, write)]

    def measure(self) -> list[Step]:
        folder, test = self.experiment.work_dir, self.experiment.test

        def measure() -> Iterator[Record]:
            models = {domain: count(folder / "texts" / domain) for domain in self.experiment.training}
            words = len(set().union(*models.values())) + 1
            for name, model in models.items():
                for domain, path in test.items():
                    value, n = perplexity(model, count(path), words), count(path).total()
                    yield Record(system=name, run=name, domain=domain, metric="perplexity", value=value, n=n)

        return [measure_step(folder / "perplexity", [folder / "texts", *test.values()], {}, measure)]

    def page(self, records: Records) -> Page:
        domains = self.experiment.test
        columns = [metric_column(records, name, "perplexity", name, form=".1f", best=min) for name in domains]
        table = Table("Perplexity by test text", "Model of", records.systems("perplexity"), columns)
        return Page("Unigrams", "Perplexity of unigram models by domain.", {"Perplexity": [table]})


RECIPE = UnigramsRecipe


def count(path: Path) -> Counter[str]:
    return Counter(" ".join(read_lines(path)).lower().split())


def perplexity(model: Counter[str], test: Counter[str], words: int) -> float:
    total = model.total() + words
    nats = -sum(number * math.log((model[word] + 1) / total) for word, number in test.items())
    return math.exp(nats / test.total())
