"""Treat options of the command line, YAML and checkpoints as data: fairseq evaluates none of them."""

from __future__ import annotations

import ast
import operator
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairseq.data.encoders.gpt2_bpe import DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE
from omegaconf import DictConfig, ListConfig, open_dict
from omegaconf.base import Node
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.base.json_file import values_in
from fairseq_ext.patches import restoring

_PACKAGES = {"fairseq", "fairseq_cli"}
# Operators in fairseq's own defaults: "[(512, 3)] * 20 + [(1024, 3)] * 4".
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}


class NotLiteralError(InputError, ValueError):
    """A value that is not a literal; argparse names the option of a ``ValueError``."""


def read_values_as_literals() -> None:
    """Replace every ``eval`` in fairseq's loaded modules with :func:`evaluate_literal`, until ``undo``."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)  # the module of a running program is named __main__, so use its spec
        if spec is not None and spec.name.partition(".")[0] in _PACKAGES and "eval" not in vars(module):
            vars(module)["eval"] = evaluate_literal
            restoring.callback(vars(module).pop, "eval", None)


def evaluate_literal(text: str) -> Any:
    """Return the value of a Python literal, or of sums and products of literals.

    Raises:
        TypeError: if it is not text, like ``eval``; fairseq relies on that.
        NotLiteralError: if it is anything else, such as a name, a call or an attribute.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, got {type(text).__name__}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        shown = text if len(text) <= 80 else f"{text[:80]}…"
        raise NotLiteralError(
            f"{shown!r} is not a plain value (a number, text or a list of them); option values are never run as code"
        ) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.List | ast.Tuple):
        values = [_value(element) for element in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    return ast.literal_eval(node)


# Sections of options from which fairseq builds something.
KINDS = ("model", "task", "criterion", "bpe")
# Building fairseq's own models, tasks, … runs, downloads and writes nothing, except for this one.
_REFUSED_NAMES = {("bpe", "bert"): "it downloads files"}
# Keys that hold the name, in fairseq's order of lookup.
_NAME_KEYS = {"model": ("_name", "arch"), "task": ("_name", "task"), "criterion": ("_name",), "bpe": ("_name",)}
# fairseq's defaults, contained in every checkpoint with GPT-2's subwords.
_ALLOWED_ADDRESSES = {DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE}
# Options that fairseq evaluates as Python.
_EVALUATED = re.compile(
    r".*_cutoff|character_filters|.*_betas|.*_eps|xformers_att_config|wer_args|.*_kernel_size_list|conv_\w+_layers|"
    r"(en|de)coder_(layers|attention)|(self|gated)_attention|project_input|downsample|pretrained"
)
_MOST_OPTIONS = 100_000
_MOST_TIMES = 16  # as many numbers as a checkpoint has
_MOST_POSITIONS = 1 << 20
# Stored by fairseq-hydra-train, and not used.
_LOGGING = "job_logging_cfg"
# Files that are only read when training starts, and one that a criterion writes.
_STARTING_FILES = (
    *("encoder_embed_path", "decoder_embed_path", "finetune_from_model", "pretrained_mlm_checkpoint"),
    *(f"load_pretrained_{part}_from" for part in ("encoder", "decoder", "aux_decoder")),
    "save_predictions",
)
# Other files that fairseq would read to build a task, a model or a criterion, and a program that a task would start.
_FILES = {
    *("pretrained_checkpoint", "pretrained_xlm_checkpoint", "seq2seq_path", "w2v_path", "lm_path", "baseline_model"),
    *("fixed_dictionary", "lang_dict", "source_dict", "target_dict", "target_dictionary", "label_dir"),
    *("sampling_weights_from_file", "wer_kenlm_model", "wer_lexicon", "post_save_script"),
}


def check_options(state: Mapping[str, Any], overrides: Mapping[str, Any], built: Sequence[str] = KINDS) -> None:
    """Check the options of a checkpoint, except those that the user overrides.

    Args:
        state: the checkpoint.
        overrides: the user's options.
        built: sections from which something will be built; their options may name no file that fairseq would read.
    """
    for entry in ("args", "cfg"):
        if state.get(entry) is None:
            continue
        options = _plain(state[entry], [_MOST_OPTIONS])
        if not isinstance(options, dict):
            raise InputError(f"its entry {entry!r} is {type(options).__name__}, expected options")
        for kind, name in _names(options, is_flat=entry == "args"):
            _check_name(kind, name)
        options.pop(_LOGGING, None)
        given = {key: value for key, value in overrides.items() if isinstance(value, str)}
        for key, value in values_in(options):
            if isinstance(value, str) and value not in given.values():
                _check_text(key, value)
        _check_size(options if entry == "args" else options.get("model"), state.get("model", {}))
        for kind in built:
            _check_files(options if entry == "args" else options.get(kind), given)


def _check_size(section: Any, weights: Mapping[str, Any]) -> None:
    """Refuse options of a model that is far larger than its weights, before it is built."""
    if isinstance(section, dict) and section.get("base_model"):
        return  # its layers are those of a model in another file, and the options of sizes are not used
    numbers = _MOST_TIMES * sum(weight.numel() for weight in weights.values() if isinstance(weight, Tensor))
    sizes = {key: value for key, value in (section if isinstance(section, dict) else {}).items() if type(value) is int}
    for side in ("encoder_", "decoder_"):
        layers, width = sizes.get(f"{side}layers", 0), sizes.get(f"{side}embed_dim", 1)
        if layers * width * max(width, sizes.get(f"{side}ffn_embed_dim", 1)) > numbers:
            raise InputError(f"its weights are too few for {layers} {side[:-1]} layers of width {width}")
    for key, value in sizes.items():
        if (key.endswith("_dim") and value > numbers) or (key.endswith("_positions") and value > _MOST_POSITIONS):
            raise InputError(f"its option {key} is {value}, too large for its weights")


def _check_files(section: Any, overrides: Mapping[str, str]) -> None:
    for key in _FILES.intersection(section if isinstance(section, dict) else ()) - overrides.keys():
        if section[key] not in (None, ""):
            raise InputError(
                f"its option {key} names a file, which is not opened ({str(section[key])[:80]!r}); "
                f"give it yourself: --model-overrides \"{{'{key}': 'FILE'}}\""
            )


def plain_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a checkpoint's model, and the remaining ones of its task, as plain values."""
    budget = [_MOST_OPTIONS]
    if state.get("args") is not None:
        sections = [_plain(state["args"], budget)]
    else:
        whole = _plain(state.get("cfg"), budget)
        sections = [whole.get(name) for name in ("task", "model")] if isinstance(whole, dict) else []
    found = {key: value for section in sections if isinstance(section, dict) for key, value in section.items()}
    if not found:
        raise InputError("its model options are missing; use a checkpoint that fairseq-train wrote")
    return found


def forget_starting_files(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Clear the paths of embeddings and of the base checkpoint, because the checkpoint holds all weights."""
    config = state.get("cfg")
    sections = [getattr(config, name, None) for name in ("model", "criterion", "checkpoint")]
    for options in (state.get("args"), *sections):
        for name in _STARTING_FILES:
            if name in overrides or getattr(options, name, None) is None:
                continue
            if isinstance(options, DictConfig):
                with open_dict(options):
                    options[name] = None
            else:
                setattr(options, name, None)


def _plain(value: Any, budget: list[int]) -> Any:
    """Convert options to plain containers without resolving anything. The budget limits cyclic containers."""
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
        # OmegaConf and fairseq treat 1 and "1" as different keys, so a converted copy could hide one of them.
        for key in value:
            if not isinstance(key, str):
                raise InputError(
                    f"its options have the key {str(key)[:80]!r} of type {type(key).__name__}, expected text"
                )
        return {key: _plain(item, budget) for key, item in value.items()}
    return [_plain(item, budget) for item in value] if isinstance(value, list | tuple | set | frozenset) else value


def _names(options: Mapping[str, Any], is_flat: bool) -> Iterator[tuple[str, Any]]:
    """Yield the kinds and names of the classes that fairseq would build."""
    for kind, keys in _NAME_KEYS.items():
        section = options if is_flat else options.get(kind)
        if isinstance(section, dict):
            names = [section.get(key) for key in ((("arch" if kind == "model" else kind),) if is_flat else keys)]
            found = [name for name in names if name is not None]
            if kind == "model" and section and not found:
                raise InputError("its options do not name a model")
            yield from ((kind, name) for name in found)
        elif section is not None:
            yield kind, section


def _check_name(kind: str, name: Any) -> None:
    if not isinstance(name, str):
        raise InputError(f"its {kind} is {type(name).__name__}, expected a name")
    if (kind, name) in _REFUSED_NAMES:
        raise InputError(f"its {kind} {name!r} is not allowed, because {_REFUSED_NAMES[kind, name]}; choose another")


def _check_text(key: str, text: str) -> None:
    if _EVALUATED.fullmatch(key):
        with naming(f"its option {key}"):
            evaluate_literal(text)
    # OmegaConf interpolations read other options, the environment or registered resolvers. fairseq resolves its own
    # before saving.
    if "${" in text:
        raise InputError(f"its option {key} is computed ({text[:80]!r}); use a checkpoint that fairseq wrote")
    if "://" in text and text not in _ALLOWED_ADDRESSES and key != "distributed_init_method":
        raise InputError(f"its option {key} is an address ({text[:80]!r}); download the file, and override the option")
