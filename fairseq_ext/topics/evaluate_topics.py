"""The command that measures the topic models of an experiment and reports on them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.engine.stages import run_stages
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.lm_config import load_lm_config
from fairseq_ext.run_lm_experiment import lm_stages_of

_STAGES = ("topics", "report")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/evaluate_topics.py``.

    Raises:
        InputError: if the experiment compares no topic models, or a system has not been trained.
    """
    parser = argparse.ArgumentParser(
        prog="evaluate_topics.py",
        description="Measure the topic models of an experiment whose systems are trained, and write the report: "
        "perplexity, forgetting, topics and their words, coherence beside LDA and NMF, texts. What is finished is not "
        "done again. scripts/run_lm_experiment.sh trains them, too.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML) with a section topics, see configs/topics")
    parser.add_argument("--dry-run", action="store_true", help="only print which steps would run")
    options = parser.parse_args(arguments)
    config = load_lm_config(options.config)
    if config.topics is None:
        raise InputError(f"{config.path}: topics: the section is missing; write topics: {{}} for its defaults")
    stages = lm_stages_of(config)
    run_stages(stages, [stage for stage in stages if stage.name in _STAGES], dry_run=options.dry_run)
