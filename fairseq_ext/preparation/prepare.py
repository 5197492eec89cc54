"""From corpora to fairseq's data directory, as steps: corpora, splits, subwords, encoded, data-bin."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.pipeline.steps import Step, run_steps
from fairseq_ext.preparation.binarise import binarise
from fairseq_ext.preparation.config import ExperimentConfig, load_config
from fairseq_ext.preparation.corpora import find_domains
from fairseq_ext.preparation.import_gettext import check_entries, import_catalogues
from fairseq_ext.preparation.split import write_splits
from fairseq_ext.preparation.subwords import encode_splits, train_subwords


def preparation_steps(config: ExperimentConfig, workers: int = 1) -> list[Step]:
    """The steps of an experiment's data preparation, in order; all write below ``config.work_dir``."""
    return [*corpus_steps(config), *subword_steps(config), _binarise_step(config, workers)]


def corpus_steps(config: ExperimentConfig) -> list[Step]:
    """The steps that end with ``splits``; corpora in a folder of the user's need no step of their own."""
    if config.corpora.catalogues is None:
        folder = Path(config.corpora.folder or "")
        return [_split_step(config, folder, find_domains(folder, *_langs(config)))]
    corpora = config.work_dir / "corpora"
    return [_import_step(config, corpora), _split_step(config, corpora, sorted(config.corpora.catalogues))]


def subword_steps(config: ExperimentConfig) -> list[Step]:
    """The steps that make ``subwords`` and, with them, ``encoded``."""
    langs = _langs(config)
    splits, subwords = config.work_dir / "splits", config.work_dir / "subwords"
    train = Step(
        subwords,
        inputs=[splits],
        options={"langs": langs, "seed": config.seed, **dataclasses.asdict(config.subwords)},
        build=lambda folder: train_subwords(folder, splits, langs, options=config.subwords, seed=config.seed),
    )
    encode = Step(
        config.work_dir / "encoded",
        inputs=[splits, subwords],
        options={"langs": langs},
        build=lambda folder: encode_splits(folder, splits, subwords, langs),
    )
    return [train, encode]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/prepare.py``."""
    parser = argparse.ArgumentParser(
        description="Prepare an experiment's data: corpora, held-out sets, subwords, numbers for fairseq. "
        "Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("--dry-run", action="store_true", help="only print which steps would run")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes for binarising")
    options = parser.parse_args(arguments)
    run_steps(preparation_steps(load_config(options.config), options.workers), dry_run=options.dry_run)


def _import_step(config: ExperimentConfig, folder: Path) -> Step:
    langs, catalogues = _langs(config), config.corpora.catalogues or {}
    downloads = config.work_dir / "downloads"
    return Step(
        folder,
        # A pinned package cannot change, so its name stands for it and nothing is fetched to compare.
        inputs=check_entries(catalogues),
        options={"catalogues": catalogues, "langs": langs},
        build=lambda output: import_catalogues(output, catalogues, langs, downloads),
    )


def _split_step(config: ExperimentConfig, folder: Path, domains: Sequence[str]) -> Step:
    langs = _langs(config)
    files = {name: (folder / f"{name}.{langs[0]}", folder / f"{name}.{langs[1]}") for name in domains}
    return Step(
        config.work_dir / "splits",
        inputs=[path for paths in files.values() for path in paths],
        options={
            **dataclasses.asdict(config.split),
            "seed": config.seed,
            "domains": list(domains),
            "langs": langs,
        },
        build=lambda output: write_splits(output, files, langs, options=config.split, seed=config.seed),
    )


def _binarise_step(config: ExperimentConfig, workers: int) -> Step:
    langs = _langs(config)
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"
    return Step(
        config.work_dir / "data-bin",
        inputs=[encoded, subwords],
        # The number of workers is no option of the step: it changes nothing in the result.
        options={"langs": langs},
        build=lambda folder: binarise(folder, encoded, subwords, langs, workers=workers),
    )


def _langs(config: ExperimentConfig) -> tuple[str, str]:
    return config.source_lang, config.target_lang
