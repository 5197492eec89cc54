"""Shared parts of recipes with models ``dagru_lm*``: systems, and n-gram models as their baseline."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.sections import Section
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import System
from fairseq_ext.experiments.ngrams import ORDERS, train_kneser_ney
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION

KNESER_NEY = "kneser-ney"  # name of the n-gram baseline among systems
NGRAM_FILE = "model.npz"
_NGRAM_VERSION = 3
TASK = "contiguous_language_modeling"


def combination_of(system: System) -> str:
    """Return how a system combines words and contexts of two domains."""
    return str(option_of(system.options, "combination") or DEFAULT_COMBINATION)


def needs_vectors(system: System) -> bool:
    """Return whether a system reads general-domain word vectors."""
    return COMBINATIONS[combination_of(system)].has_general_words


class RecurrentModel(System):
    """A recurrent language model. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = ("start", "uses_teacher", "data")

    @model_validator(mode="after")
    def _check_model(self) -> RecurrentModel:
        if not str(option_of(self.options, "arch")).startswith(ARCHITECTURE):
            raise ValueError(f"arch: choose one that begins with {ARCHITECTURE}")
        if (combination := combination_of(self)) not in COMBINATIONS:
            raise ValueError(f"combination: {combination!r} is unknown; choose one of {', '.join(COMBINATIONS)}")
        return self


class Ngrams(Section):
    """n-gram models with modified Kneser-Ney smoothing."""

    order: Annotated[int, Field(ge=ORDERS[0], le=ORDERS[-1])] = 5


def ngram_step(output: Path, text: Path, order: int) -> Step:
    """Return the step that trains an n-gram model on a text."""
    options = {"version": _NGRAM_VERSION, "order": order}
    return Step(output, [text], options, lambda folder: train_kneser_ney(text, order).save(folder / NGRAM_FILE))
