"""Choose the task from the model and the data directory if ``--task`` is not given."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairseq import options, utils
from fairseq.models import ARCH_MODEL_NAME_REGISTRY

from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.modules.language_model_options import HIERARCHICAL_ADAPTERS, LANGUAGE_MODELING_TASK, TOPIC_MODEL
from fairseq_ext.patches import Patch, around

_TRANSLATION = "multi_domain_translation"
# Models that support a single task.
TASK_OF_MODEL = {
    "transformer_domain_adapter": _TRANSLATION,
    "transformer_gated_adapter": _TRANSLATION,
    HIERARCHICAL_ADAPTERS: LANGUAGE_MODELING_TASK,
    "dagru_lm": "contiguous_language_modeling",
    "roberta_houlsby_adapter": "task_prediction",
    "bert": "masked_language_modeling",
}


def _parse(
    parse: Callable[..., Any], parser: ArgumentParser, input_args: Sequence[str] | None = None, *args: Any, **given: Any
) -> Any:
    words = sys.argv[1:] if input_args is None else input_args
    if any(action.dest == "task" for action in parser._actions):
        parser.set_defaults(task=fitting_task(words, parser.get_default("task")))
    return parse(parser, input_args, *args, **given)


def fitting_task(words: Sequence[str], default: str | None) -> str | None:
    """Return the task for a command line without ``--task``; fairseq's default if none is implied."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--arch", "-a", default="")
    arch = parser.parse_known_args([str(word) for word in words])[0].arch
    model = ARCH_MODEL_NAME_REGISTRY.get(arch, arch)
    if model in TASK_OF_MODEL:
        return TASK_OF_MODEL[model]
    for folder in [Path(utils.split_paths(str(word))[0]) for word in words if word]:
        if (folder / DOMAINS_FILE).is_file():
            return _TRANSLATION if any(folder.glob("dict.*.txt")) else LANGUAGE_MODELING_TASK
    return "language_modeling" if model == TOPIC_MODEL else default


PATCHES: list[Patch] = [(options, "parse_args_and_arch", around(_parse))]
