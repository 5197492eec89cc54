"""From text by domain to the data of language models, as steps: corpora, splits, subwords, encoded, data-bin.

``data-bin`` has the training domains, ``data-bin-unseen`` the others, with the same dictionary. In both there are
``domains.txt``, ``dict.txt``, the subword model, and ``DOMAIN/{train,valid,test}.{bin,idx}`` with ``</s>`` after
every line.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.domains.names import DOMAINS_FILE
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.text_steps import encode_step, import_text_step, sentencepiece_step, text_files
from fairseq_ext.text.binarise import binarise_files
from fairseq_ext.text.encoders import (
    BPE_FILES,
    subword_files,
    take_gpt2_subwords,
)
from fairseq_ext.text.line_split import text_path, write_text_splits
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE

DATA_DIR, UNSEEN_DATA_DIR = "data-bin", "data-bin-unseen"
_ENDING = "txt"
_THIS_MACHINE = Engine()


def preparation_steps(config: LanguageModelExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    """The steps of the data preparation of language models, in order; all write below ``config.work_dir``.

    Raises:
        InputError: if a folder of the corpora holds no text, or a domain is in both.
    """
    files, unseen = _text_files(config)
    steps = [
        import_text_step(config.work_dir, {**files, **unseen}, config.corpora.on_bad_utf8, engine),
        _split_step(config, [*files, *unseen]),
        _subword_step(config, list(files)),
        encode_step(config.work_dir, _sets([*files, *unseen]), engine),
        _binarise_step(config, DATA_DIR, list(files), engine),
    ]
    return [*steps, _binarise_step(config, UNSEEN_DATA_DIR, list(unseen), engine)] if unseen else steps


def _text_files(config: LanguageModelExperiment) -> tuple[dict[str, Path], dict[str, Path]]:
    corpora = config.corpora
    files = text_files(Path(corpora.folder))
    unseen = text_files(Path(corpora.unseen)) if corpora.unseen is not None else {}
    for name in files.keys() & unseen.keys():
        raise InputError(f"{unseen[name]}: {name!r} is a training domain too ({files[name]}); rename or remove one")
    return files, unseen


def _split_step(config: LanguageModelExperiment, names: Sequence[str]) -> Step:
    texts = {name: config.work_dir / "corpora" / f"{name}.{_ENDING}" for name in sorted(names)}
    return Step(
        config.work_dir / "splits",
        inputs=list(texts.values()),
        options={**dataclasses.asdict(config.split), "seed": config.seed, "domains": list(texts)},
        build=lambda folder: write_text_splits(folder, texts, options=config.split, seed=config.seed),
    )


def _subword_step(config: LanguageModelExperiment, names: Sequence[str]) -> Step:
    output, options = config.work_dir / "subwords", config.subwords
    if options.gpt2 is not None:
        imported = Path(options.gpt2)
        return Step(
            output,
            inputs=[imported / name for name in BPE_FILES],
            options={"kind": "gpt2"},
            build=lambda folder: take_gpt2_subwords(folder, imported),
        )
    texts = [text_path(config.work_dir / "splits", name, "train") for name in names]
    return sentencepiece_step(output, texts, options, config.seed)


def _sets(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, role) for name in sorted(names) for role in SPLITS]


def _binarise_step(config: LanguageModelExperiment, output: str, names: Sequence[str], engine: Engine) -> Step:
    encoded, subwords = config.work_dir / "encoded", config.work_dir / "subwords"
    files = [(f"{name}/{role}.{_ENDING}", f"{name}/{role}") for name in names for role in SPLITS]

    def build(folder: Path) -> str:
        unknown = binarise_files(folder, encoded, subwords / DICT_FILE, files, engine)
        for name in subword_files(subwords):
            shutil.copyfile(subwords / name, folder / name)
        write_lines(folder / DOMAINS_FILE, names)
        return unknown

    return Step(
        config.work_dir / output,
        inputs=[*(encoded / name for name in names), subwords],
        options={"domains": list(names)},
        build=build,
        resumable=True,
    )
