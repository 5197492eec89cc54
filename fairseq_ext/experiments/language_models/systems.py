"""The systems of an experiment with language models, whatever it compares.

They are those of :mod:`fairseq_ext.recipes.config`, with a key of their own: ``checkpoint``, a model that is there
already and only measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.engine.fairseq_cli import check_counts, option_of
from fairseq_ext.experiments.systems import take
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import System

_DEFAULT_BLOCK = 1024  # fairseq's


@dataclass(frozen=True)
class LanguageModel:
    """A system and what only language models have.

    Attributes:
        system: what is trained; its options are fairseq-train's.
        checkpoint: a trained model that takes the place of a training.
    """

    system: System
    checkpoint: Path | None = None

    def is_a(self, model: str) -> bool:
        """Whether its architecture is a registered model or one of that model's presets, which begin with its name."""
        return str(option_of(self.system.options, "arch")).startswith(model)

    @property
    def tokens_per_sample(self) -> int:
        """How long its blocks of text are."""
        return int(option_of(self.system.options, "tokens-per-sample") or _DEFAULT_BLOCK)


def read_language_model(system: System, where: str) -> LanguageModel:
    """What a system is, if it is a language model.

    Raises:
        InputError: naming ``where`` and the key that cannot be used.
    """
    for key in ("uses_teacher", "per_domain"):
        if getattr(system, key):
            raise InputError(f"{where}: {key}: is for translation; take it out")
    options = dict(system.options)
    checkpoint = take(options, "checkpoint", str, None, where)
    check_counts(options, ("tokens-per-sample",), where)
    if checkpoint is not None and (system.start or system.seeds or system.tune):
        raise InputError(f"{where}: checkpoint: is not trained, so it has no from, seeds or tune; take them out")
    return LanguageModel(system.model_copy(update={"options": options}), Path(checkpoint) if checkpoint else None)
