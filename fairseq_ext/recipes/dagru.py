"""What recipes with models ``dagru_lm*`` share: the systems."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pydantic import model_validator

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION
from fairseq_ext.recipes.config import System

TASK = "contiguous_language_modeling"


def combination_of(system: System) -> str:
    """How a system combines the words and contexts of two domains."""
    return str(option_of(system.options, "combination") or DEFAULT_COMBINATION)


def needs_vectors(system: System) -> bool:
    """Whether a system reads general-domain word vectors."""
    return COMBINATIONS[combination_of(system)].has_general_words


class RecurrentModel(System):
    """A recurrent language model. Keys that are not listed are options of fairseq-train."""

    refused: ClassVar[Collection[str]] = ("start", "uses_teacher", "data")

    @model_validator(mode="after")
    def _check_model(self) -> RecurrentModel:
        if not str(option_of(self.options, "arch")).startswith(ARCHITECTURE):
            raise ValueError(f"arch: give one of {ARCHITECTURE}*, which carries its state over")
        if (combination := combination_of(self)) not in COMBINATIONS:
            raise ValueError(f"combination: {combination!r} is unknown; choose one of {', '.join(COMBINATIONS)}")
        return self
