"""Whether an import is complete: a model of its architecture has the same entries, of the same shapes."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from torch import Tensor

import fairseq_ext.registration  # noqa: F401  the architectures that are built
from fairseq_ext.convert.transformer import Imported
from fairseq_ext.training.checkpoints import check_fit

_SPECIAL = 4  # symbols that every dictionary of fairseq's begins with


def check_complete(imported: Imported) -> None:
    """Check that nothing is missing, unknown, or of another shape.

    Raises:
        InputError: listing what is.
    """
    # Without memory for weights: none is computed with.
    with torch.device("meta"):
        model = _build(imported)
    state = dict(imported.weights)
    model.upgrade_state_dict(state)
    check_fit(model, state, "", {}, True)


def built(imported: Imported) -> Any:
    """The model, with its weights, ready to translate."""
    model = _build(imported)
    model.load_state_dict(dict(imported.weights), strict=True)
    return model.float().eval()


def task_arguments(imported: Imported, languages: Sequence[str | None]) -> list[str]:
    """Task and criterion as one would give them to ``fairseq-train``."""
    task = "multi_domain_translation" if imported.names else "translation"
    line = ["--task", task, "--criterion", "label_smoothed_cross_entropy"]
    for flag, language in zip(("--source-lang", "--target-lang"), languages, strict=True):
        line += [flag, language] if language else []
    return line


def _build(imported: Imported) -> Any:
    line = [".", "--optimizer", "adam", *task_arguments(imported, (None, None)), *imported.arguments]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args = options.parse_args_and_arch(options.get_training_parser(), line)
    source, target = (_symbols(imported.weights[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder"))
    if imported.layout["share_all_embeddings"]:
        target = source
    task = Namespace(source_dictionary=source, target_dictionary=target, domains=list(imported.names))
    return ARCH_MODEL_REGISTRY[imported.arch].build_model(args, task)


def _symbols(table: Tensor) -> Dictionary:
    """A dictionary of as many symbols as embeddings; what they stand for does not matter."""
    dictionary = Dictionary()
    for number in range(len(table) - _SPECIAL):
        dictionary.add_symbol(f"symbol{number}")
    return dictionary
