"""The n-best lists of a translation experiment's validation and test sets: ``fairseq-generate`` as steps."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.engine.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.engine.fairseq_options import FairseqCommand
from fairseq_ext.engine.option_files import named_files
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.reranking.config import RerankingExperiment
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import Place
from fairseq_ext.recipes.train import BEST_CHECKPOINT
from fairseq_ext.text.split import HELD_OUT

LIST_FILE, MESSAGES_FILE = "nbest.txt", "generate.log"


def list_file(config: RerankingExperiment, split: str) -> Path:
    """The hypotheses of a set, all domains' sentences in their order."""
    return config.work_dir / "nbest" / split / LIST_FILE


def list_steps(config: RerankingExperiment) -> list[Step]:
    """The steps that translate the validation and the test set.

    Raises:
        InputError: if the system that translates is not there.
    """
    return [_list_step(config, split) for split in HELD_OUT]


def _list_step(config: RerankingExperiment, split: str) -> Step:
    given = config.translation
    checkpoint = given.work_dir / "systems" / given.run / BEST_CHECKPOINT
    if not checkpoint.is_file():
        raise InputError(
            f"{config.path}: translation: run: {given.run!r} is not trained (no {checkpoint}); run its experiment "
            "first, or name another of its systems"
        )
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint), "--bpe", "sentencepiece"]
    arguments += ["--sentencepiece-model", str(given.data / "sentencepiece.model"), "--nbest", str(given.nbest)]
    if option_of(given.options, "beam") is None:
        arguments += ["--beam", str(given.nbest)]
    arguments += as_arguments(given.options)
    inputs = [given.data, checkpoint]
    inputs += named_files(arguments, "translate", inputs)

    def build(folder: Path) -> None:
        line = [str(given.data), "--gen-subset", split, *arguments]
        run_fairseq("generate", line, output=folder / LIST_FILE, messages=folder / MESSAGES_FILE)

    place = Place(f"{config.path}: translation: options", tuple(given.options))
    return Step(
        list_file(config, split).parent,
        inputs,
        {"nbest": given.nbest, "split": split, **given.options},
        build,
        commands=[FairseqCommand("generate", tuple(arguments), place)],
        side_by_side=True,
    )
