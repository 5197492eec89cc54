"""Step that makes general sentence pairs, from which gates learn to choose the base (``--gate-base``)."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.base.jobs import THIS_MACHINE
from fairseq_ext.base.steps import Step
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.experiments.base import BASE
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.data import base_text
from fairseq_ext.experiments.translation.decoding import TASK, translate_file
from fairseq_ext.text.subwords import dictionary_of, encode_lines, load_subwords, model_of
from fairseq_ext.text.text_files import stream_lines, write_lines

_NAME = "train"


def general_step(config: Translation) -> Step:
    """Return the step that translates the text of ``teacher: base_text`` by the base, and binarises the pairs.

    The base's own translations are the targets, so that general text teaches nothing but when to choose the base.
    """
    data, checkpoint = config.work_dir / "data-bin", best_checkpoint(config, BASE)
    arguments = ["--task", TASK, "--path", str(checkpoint), "--domain", BASE, "--beam", "1", "--max-tokens", "4000"]
    arguments += ["--max-len-a", "2", "--max-len-b", "20"]  # a translation that repeats itself holds up its whole batch
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]

    def build(folder: Path) -> str:
        lines = [line for line in base_text(config) if len(line.split()) <= config.split.max_words]
        source = folder / f"{_NAME}.{config.source_lang}"
        write_lines(source, lines)
        translate_file(folder, source, [str(data), *arguments], {_NAME: len(lines)}, config.target_lang)
        _binarise(folder, config)
        return f"{len(lines):,} sentences"

    inputs = [data, checkpoint, *map(Path, config.teacher.base_text)]
    options = {"version": 1, "langs": config.langs, "max_words": config.split.max_words}
    return Step(config.work_dir / "general", inputs, options, build)


def _binarise(folder: Path, config: Translation) -> None:
    """Binarise ``train.LANG`` in ``folder`` as ``train.SRC-TGT.LANG``."""
    vocabulary, pair = config.subwords_dir, "-".join(config.langs)
    files = [(f"{_NAME}.pieces.{lang}", f"{_NAME}.{pair}.{lang}") for lang in config.langs]
    for lang, (pieces, _) in zip(config.langs, files, strict=True):
        processor = load_subwords(model_of(vocabulary, lang))
        write_lines(folder / pieces, encode_lines(processor, stream_lines(folder / f"{_NAME}.{lang}")))
    dictionaries = [dictionary_of(vocabulary, lang) for lang in config.langs]
    binarise_files(folder, folder, dictionaries, files, THIS_MACHINE)
