"""What recipes with models ``dagru_lm*`` share: how a system combines two domains, and what it may say."""

from __future__ import annotations

from collections.abc import Collection

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION
from fairseq_ext.recipes.config import System

TASK = "contiguous_language_modeling"


def combination_of(system: System) -> str:
    """How a system combines the words and contexts of two domains."""
    return str(option_of(system.options, "combination") or DEFAULT_COMBINATION)


def needs_vectors(system: System) -> bool:
    """Whether a system reads general-domain word vectors."""
    combination = COMBINATIONS.get(combination_of(system))
    return combination is not None and combination.has_general_words


def check_dagru(system: System, refused: Collection[str]) -> None:
    """Check that a system is a recurrent language model.

    Args:
        system: what the file says of it.
        refused: attributes of systems that the recipe has no use for.

    Raises:
        ValueError: naming the key.
    """
    for name in refused:
        if getattr(system, name):
            raise ValueError(f"{System.model_fields[name].alias or name}: is not for this recipe; take it out")
    if not str(option_of(system.options, "arch")).startswith(ARCHITECTURE):
        raise ValueError(f"arch: give one of {ARCHITECTURE}*, which carries its state over")
    combination = combination_of(system)
    if combination not in COMBINATIONS:
        raise ValueError(f"combination: {combination!r} is unknown; choose one of {', '.join(COMBINATIONS)}")
