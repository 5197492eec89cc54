"""The experiment file of language models: one YAML from text by domain to perplexities.

``corpora``, ``split`` and ``subwords`` are checked here, once, before anything runs. ``tree``, ``train``, ``evaluate``
and ``topics`` are handed on unread to the stages that use them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import SentencePiece, check_sentencepiece
from fairseq_ext.experiment.yaml_sections import (
    as_mapping,
    check_choice,
    check_numbers,
    check_seed,
    load_yaml,
    read_section,
)


@dataclass(frozen=True)
class LanguageModelCorpora:
    """Where the text comes from.

    Attributes:
        folder: of the training domains, one file ``DOMAIN.txt`` each.
        unseen: of the domains that no model is trained on; None for none.
        on_bad_utf8: what becomes of a line with bytes that are no UTF-8: ``fail``, ``drop`` (the line) or ``replace``
            (by U+FFFD).
    """

    folder: str
    unseen: str | None = None
    on_bad_utf8: str = "fail"


@dataclass(frozen=True)
class LanguageModelSplit:
    """Sizes of the held-out sets (lines per domain), and how many consecutive lines are held out together."""

    valid: int = 1000
    test: int = 1000
    stretch: int = 50


@dataclass(frozen=True)
class LanguageModelSubwords(SentencePiece):
    """A SentencePiece model of the training domains' text or, where ``gpt2`` is given, that imported model's own BPE.

    ``gpt2`` names a folder made by ``scripts/import_gpt2.py``; the other options are then not used.
    """

    gpt2: str | None = None


@dataclass(frozen=True)
class LanguageModelExperiment:
    """A whole experiment file; ``path`` is where it was read from. With ``topics`` it compares topic models."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    corpora: LanguageModelCorpora
    seed: int = 1
    split: LanguageModelSplit = LanguageModelSplit()
    subwords: LanguageModelSubwords = LanguageModelSubwords()
    tree: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    evaluate: dict[str, Any] = field(default_factory=dict)
    topics: dict[str, Any] | None = None


def load_lm_config(path: Path) -> LanguageModelExperiment:
    """Read and check an experiment file of language models.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(load_yaml(path))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: read_section(LanguageModelCorpora, value, where),
        "split": lambda value, where: read_section(LanguageModelSplit, value, where),
        "subwords": lambda value, where: read_section(LanguageModelSubwords, value, where),
        "tree": as_mapping,
        "train": as_mapping,
        "evaluate": as_mapping,
        "topics": as_mapping,
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    config: LanguageModelExperiment = read_section(
        LanguageModelExperiment, raw, str(path), given={**sections, "path": path}
    )
    _check(config)
    return config


def _check(config: LanguageModelExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    check_seed(config.seed, where)
    check_choice(config.corpora.on_bad_utf8, ON_BAD_UTF8, f"{where}: corpora: on_bad_utf8")
    for name in ("split", "subwords"):
        check_numbers(dataclasses.asdict(getattr(config, name)), f"{where}: {name}")
    check_sentencepiece(config.subwords, f"{where}: subwords")
    if config.corpora.unseen is not None and Path(config.corpora.unseen) == Path(config.corpora.folder):
        raise InputError(f"{where}: corpora: unseen: is also the folder of the training domains; choose another")
