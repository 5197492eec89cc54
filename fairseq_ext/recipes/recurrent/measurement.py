"""What is measured: perplexity and size of every model, and the numbers of the text, as records.

Perplexity is per token: every word, and one end a line. Sets are ``valid`` and ``test``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial

from fairseq_ext.corpora.split import HELD_OUT
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.dagru import ARPA_FILE, KNESER_NEY
from fairseq_ext.recipes.recurrent.config import COUNTS_FILE, DATA_DIR, TEXT_DIR, Recurrent
from fairseq_ext.recipes.report import measure_step, measured, training_records
from fairseq_ext.recipes.train import best_checkpoint

PERPLEXITY, PARAMETERS = "perplexity", "parameters"
_VERSION = 2


def perplexity_steps(config: Recurrent) -> list[Step]:
    """The steps that measure every run, and the n-gram model: ``perplexity/RUN``."""
    steps = [_step_of_run(config, run) for run in config.all_runs]
    return [*steps, _step_of_ngrams(config)] if config.kneser_ney else steps


def all_records(config: Recurrent) -> Records:
    """Everything that was measured so far."""
    return Records([*_text_records(config), *training_records(config), *measured(perplexity_steps(config))])


def _step_of_run(config: Recurrent, run: Run) -> Step:
    checkpoint, data = best_checkpoint(config, run.name), config.work_dir / DATA_DIR

    def measure() -> Iterator[Record]:
        # Loads fairseq.
        from fairseq_ext.recipes.perplexity import ContiguousScorer

        scorer = ContiguousScorer.load(checkpoint, data, cpu=config.evaluate.cpu)
        found = {split: scorer.score(split) for split in HELD_OUT}
        sets = {split: (likelihood.nats, likelihood.tokens) for split, likelihood in found.items()}
        return records_of(run.system.name, run.name, run.seed, sets, scorer.num_parameters)

    return measure_step(config.work_dir / "perplexity" / run.name, [checkpoint, data], {"version": _VERSION}, measure)


def _step_of_ngrams(config: Recurrent) -> Step:
    arpa = config.work_dir / KNESER_NEY / ARPA_FILE
    texts = {split: config.text(split) for split in HELD_OUT}

    def measure() -> Iterator[Record]:
        from fairseq_ext.recipes.kneser_ney import count_ngrams, likelihood

        sets = {split: likelihood(arpa, text) for split, text in texts.items()}
        return records_of(KNESER_NEY, KNESER_NEY, None, sets, count_ngrams(arpa))

    return measure_step(
        config.work_dir / "perplexity" / KNESER_NEY, [arpa, *texts.values()], {"version": _VERSION}, measure
    )


def records_of(
    system: str, run: str, seed: int | None, sets: Mapping[str, tuple[float, int]], parameters: int
) -> Iterator[Record]:
    """The records of a model; ``sets`` have the negative log-likelihood in nats and the number of tokens."""
    of = partial(Record, system=system, run=run, seed=seed)
    yield of(metric=PARAMETERS, value=parameters)
    for split, (nats, tokens) in sets.items():
        yield of(domain=split, metric=PERPLEXITY, value=math.exp(nats / tokens), n=tokens)


def _text_records(config: Recurrent) -> Iterator[Record]:
    """How many lines, tokens, words and unknown words each set has."""
    path = config.work_dir / TEXT_DIR / COUNTS_FILE
    counts: Mapping[str, Mapping[str, int]] = read_json(path, "make it again") if path.is_file() else {}
    for split, numbers in counts.items():
        for metric, value in numbers.items():
            yield Record(domain=split, metric=metric, value=value)
