"""Re-ranking the n-best lists of a translation experiment, from language models to the report, as stages."""

from __future__ import annotations

from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.experiments.reranking.config import RerankingExperiment, read_config

_THIS_MACHINE = Engine()


def stages_of(config: RerankingExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every language model is one, under its own name.

    Raises:
        InputError: if a system is named like another stage.
    """
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, name), trains=True) for name in config.systems),
        *([Stage("kneser-ney", partial(_ngrams, config))] if config.kneser_ney else []),
        Stage("translate", partial(_lists, config)),
        Stage("rerank", partial(_reranking, config)),
        Stage("report", partial(_report, config)),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: RerankingExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    from fairseq_ext.experiments.reranking.language_models import data_steps

    return data_steps(config)


def _training(config: RerankingExperiment, name: str) -> list[Step]:
    from fairseq_ext.experiments.reranking.language_models import training_steps

    return training_steps(config, name)


def _ngrams(config: RerankingExperiment) -> list[Step]:
    from fairseq_ext.experiments.reranking.language_models import ngram_steps

    return ngram_steps(config)


def _lists(config: RerankingExperiment) -> list[Step]:
    from fairseq_ext.experiments.reranking.translate import list_steps

    return list_steps(config)


def _reranking(config: RerankingExperiment) -> list[Step]:
    from fairseq_ext.experiments.reranking.rerank import reranking_step

    return [reranking_step(config)]


def _report(config: RerankingExperiment) -> list[Step]:
    from fairseq_ext.experiments.reranking.report import report_step

    return [report_step(config)]


KIND = Kind(read_config, _preparation, stages_of)
