"""Options of the command line, of YAML and of checkpoints are data: fairseq evaluates none of them."""

from __future__ import annotations

import ast
import operator
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data.encoders.gpt2_bpe import DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, ListConfig, open_dict
from omegaconf.base import Node

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import values_in
from fairseq_ext.patches import Execute, hook_modules

_PACKAGES = {"fairseq", "fairseq_cli"}
# What fairseq's own defaults are written with: "[(512, 3)] * 20 + [(1024, 3)] * 4".
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}


class NotLiteralError(InputError, ValueError):
    """A value that is more than numbers, text and containers; argparse names the option of a ``ValueError``."""


def read_values_as_literals() -> None:
    """Let every ``eval`` in fairseq's modules, loaded or not yet, be :func:`evaluate_literal`."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)  # of a program too, which is not named after its file
        if spec is not None and _way_of(spec.name):
            module.__dict__["eval"] = evaluate_literal
    hook_modules(_way_of)


def evaluate_literal(text: str) -> Any:
    """The value of a Python literal, or of sums and products of literals; ``TypeError`` if it is no text, as ``eval``.

    fairseq relies on that. Anything else, such as a name, a call or an attribute, is a :class:`NotLiteralError`.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {type(text).__name__}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        shown = text if len(text) <= 80 else f"{text[:80]}…"
        raise NotLiteralError(
            f"{shown!r} is not a plain value (numbers, text, lists of them): values of options are never run as code"
        ) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(element) for element in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    return ast.literal_eval(node)


def _with_literals(execute: Execute) -> Execute:
    def execute_with_literals(module: ModuleType) -> None:
        module.__dict__["eval"] = evaluate_literal
        execute(module)

    return execute_with_literals


def _way_of(name: str) -> Callable[[Execute], Execute] | None:
    return _with_literals if name.partition(".")[0] in _PACKAGES else None


# The models, tasks, criterions and subword encodings of fairseq that this package trains, imports or starts from.
# None of them runs, fetches or writes anything when it is built. Names that another package registers stay allowed:
# the user chose that package.
ALLOWED_NAMES: dict[str, tuple[str, ...]] = {
    "model": ("transformer", "transformer_align", "transformer_lm", "roberta", "xlmr", "camembert", "gottbert"),
    "task": ("translation", "language_modeling", "masked_lm", "multilingual_masked_lm", "sentence_prediction"),
    "criterion": (
        *("cross_entropy", "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_with_alignment"),
        *("adaptive_loss", "masked_lm", "sentence_prediction"),
    ),
    "bpe": ("byte_bpe", "bytes", "characters", "fastbpe", "gpt2", "hf_byte_bpe", "sentencepiece", "subword_nmt"),
}
# The keys that hold the name, in the order in which fairseq looks at them.
_NAME_KEYS = {"model": ("_name", "arch"), "task": ("_name", "task"), "criterion": ("_name",), "bpe": ("_name",)}
# Every checkpoint with GPT-2's subwords has these defaults of fairseq.
_ALLOWED_ADDRESSES = {DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE}
# Options that fairseq evaluates as Python.
_EVALUATED = re.compile(r".*_cutoff|character_filters|.*_betas|.*_eps|xformers_att_config|wer_args")
_MOST_OPTIONS = 100_000
# fairseq-hydra-train stores its logging configuration. Nothing reads it.
_LOGGING = "job_logging_cfg"
# Paths that only the start of a training needs.
_STARTING_FILES = ("encoder_embed_path", "decoder_embed_path", "finetune_from_model")


def check_options(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Check the options from which fairseq would build a task and a model, but for the user's own that replace some."""
    for entry in ("args", "cfg"):
        if state.get(entry) is None:
            continue
        options = _plain(state[entry], [_MOST_OPTIONS])
        if not isinstance(options, dict):
            raise InputError(f"its entry {entry!r} is {type(options).__name__}, expected options")
        for kind, name in _names(options, is_flat=entry == "args"):
            _check_name(kind, name)
        options.pop(_LOGGING, None)
        for key, value in values_in(options):
            if isinstance(value, str) and value not in overrides.values():
                _check_text(key, value)


def plain_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a checkpoint's model, and those of its task that the model does not have, as plain values."""
    budget = [_MOST_OPTIONS]
    if state.get("args") is not None:
        sections = [_plain(state["args"], budget)]
    else:
        whole = _plain(state.get("cfg"), budget)
        sections = [whole.get(name) for name in ("task", "model")] if isinstance(whole, dict) else []
    found = {key: value for section in sections if isinstance(section, dict) for key, value in section.items()}
    if not found:
        raise InputError("it has no options of its model; use a checkpoint that fairseq-train wrote")
    return found


def forget_starting_files(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Clear the paths of embeddings and of the base checkpoint: the checkpoint holds all weights itself."""
    for options in (state.get("args"), getattr(state.get("cfg"), "model", None)):
        for name in _STARTING_FILES:
            if name in overrides or getattr(options, name, None) is None:
                continue
            if isinstance(options, DictConfig):
                with open_dict(options):
                    options[name] = None
            else:
                setattr(options, name, None)


def _plain(value: Any, budget: list[int]) -> Any:
    """Options as plain containers, without resolving anything. The budget bounds containers that hold each other."""
    budget[0] -= 1
    if budget[0] < 0:
        raise InputError(f"it has more than {_MOST_OPTIONS} options")
    if isinstance(value, DictConfig | ListConfig):
        value = value.__dict__.get("_content")
    elif isinstance(value, Node):
        value = value.__dict__.get("_val")
    if isinstance(value, Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): _plain(item, budget) for key, item in value.items()}
    return [_plain(item, budget) for item in value] if isinstance(value, list | tuple) else value


def _names(options: Mapping[str, Any], is_flat: bool) -> Iterator[tuple[str, Any]]:
    """The kinds and names of the classes that fairseq would build."""
    for kind, keys in _NAME_KEYS.items():
        section = options if is_flat else options.get(kind)
        if isinstance(section, dict):
            names = [section.get(key) for key in ((("arch" if kind == "model" else kind),) if is_flat else keys)]
            found = [name for name in names if name is not None]
            if kind == "model" and section and not found:
                raise InputError("its options name no model")
            yield from ((kind, name) for name in found)
        elif section is not None:
            yield kind, section


def _check_name(kind: str, name: Any) -> None:
    known: Mapping[str, type] = {
        "model": {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY},
        "task": TASK_REGISTRY,
        "criterion": CRITERION_REGISTRY,
        "bpe": REGISTRIES["bpe"]["registry"],
    }[kind]
    if not isinstance(name, str):
        raise InputError(f"its {kind} is {type(name).__name__}, expected a name")
    # fairseq cannot build anything from a name that nobody registered.
    found = known.get(name, object)
    is_of_fairseq = found.__module__.partition(".")[0] == "fairseq"
    if is_of_fairseq and found not in [known[allowed] for allowed in ALLOWED_NAMES[kind]]:
        raise InputError(
            f"its {kind} {name!r} is refused; of fairseq's own, a checkpoint may name {', '.join(ALLOWED_NAMES[kind])}"
        )


def _check_text(key: str, text: str) -> None:
    if _EVALUATED.fullmatch(key):
        try:
            evaluate_literal(text)
        except InputError as error:
            raise InputError(f"its option {key}: {error}") from None
    # OmegaConf's interpolations read other options, the environment, or whatever a package registered. fairseq
    # resolves its own before it saves.
    if "${" in text:
        raise InputError(f"its option {key} is computed ({text[:80]!r}); use a checkpoint that fairseq wrote")
    if "://" in text and text not in _ALLOWED_ADDRESSES and key != "distributed_init_method":
        raise InputError(f"its option {key} is an address ({text[:80]!r}); fetch the file, and override the option")
