"""The options of a checkpoint: names of models that are known here, sizes that its weights have, no addresses."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data.encoders.gpt2_bpe import DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, ListConfig, open_dict
from omegaconf.base import Node
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import values_in
from fairseq_ext.patches.literals import evaluate_literal

# Of fairseq's own, those that something here trains, imports or starts from. None runs, fetches or writes anything
# when it is built. What another package registers is code that the user chose, and stays allowed.
ALLOWED_NAMES: dict[str, tuple[str, ...]] = {
    "model": ("transformer", "transformer_align", "transformer_lm", "roberta", "xlmr", "camembert", "gottbert"),
    "task": ("translation", "language_modeling", "masked_lm", "multilingual_masked_lm", "sentence_prediction"),
    "criterion": (
        *("cross_entropy", "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_with_alignment"),
        *("adaptive_loss", "masked_lm", "sentence_prediction"),
    ),
    "bpe": ("byte_bpe", "bytes", "characters", "fastbpe", "gpt2", "hf_byte_bpe", "sentencepiece", "subword_nmt"),
}
# Where fairseq looks for the name; "_name" first.
_NAME_KEYS = {"model": ("_name", "arch"), "task": ("_name", "task"), "criterion": ("_name",), "bpe": ("_name",)}
# fairseq's defaults, in every checkpoint with that subword encoding.
_ALLOWED_ADDRESSES = {DEFAULT_ENCODER_JSON, DEFAULT_VOCAB_BPE}
_MOST_OPTIONS = 100_000
# How the program that trained it logged, kept by fairseq-hydra-train and read by nothing.
_LOGGING = "job_logging_cfg"

_EMBEDDING_FILES = ("encoder_embed_path", "decoder_embed_path")

_LAYERS = re.compile(r"(.*_)?layers")
_WIDTHS = re.compile(r"(.*_)?(dim|heads|topics)")
_POSITIONS = re.compile(r"max_(source_|target_)?positions|tokens_per_sample|.*_cutoff")
# Read as Python by fairseq, in models, optimisers and criterions.
_EVALUATED = re.compile(r".*_cutoff|character_filters|.*_betas|.*_eps|xformers_att_config|wer_args")
_MOST_LAYERS, _MOST_WIDTH, _MOST_POSITIONS = 256, 8192, 1 << 18


def check_options(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Check the options that fairseq would build a task and a model of.

    Args:
        state: a checkpoint's, as it was read.
        overrides: options that replace those; they are the user's.

    Raises:
        InputError: if they name what is not on the list, are computed or fetched, or claim sizes that the weights
            have not.
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
        plain = [(key, value) for key, value in values_in(options) if not isinstance(value, Tensor)]
        leaves = [(key, value) for key, value in plain if value not in overrides.values()]
        _check_texts(leaves)
        _check_sizes(leaves, state["model"])


def plain_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the model of a checkpoint, and those of its task that the model's lack; nothing is resolved.

    Raises:
        InputError: if there are none.
    """
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


def forget_embedding_files(state: Mapping[str, Any], overrides: Mapping[str, Any]) -> None:
    """Have a model not read again, from a path in a checkpoint, the embeddings that the checkpoint has anyway."""
    for options in (state.get("args"), getattr(state.get("cfg"), "model", None)):
        for name in _EMBEDDING_FILES:
            if name in overrides or getattr(options, name, None) is None:
                continue
            if isinstance(options, DictConfig):
                with open_dict(options):
                    options[name] = None
            else:
                setattr(options, name, None)


def _plain(value: Any, budget: list[int]) -> Any:
    """Options as plain containers, nothing in them resolved; few, though each may be in many places."""
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
    """The kinds and names of what would be built."""
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
    # Of a name that nothing is registered under, nothing can be built.
    found = known.get(name, object)
    is_of_fairseq = found.__module__.partition(".")[0] == "fairseq"
    if is_of_fairseq and found not in [known[allowed] for allowed in ALLOWED_NAMES[kind]]:
        raise InputError(
            f"its {kind} {name!r} is refused; of fairseq's own, a checkpoint may name {', '.join(ALLOWED_NAMES[kind])}"
        )


def _check_texts(leaves: list[tuple[str, Any]]) -> None:
    for key, text in leaves:
        if not isinstance(text, str):
            continue
        if _EVALUATED.fullmatch(key):
            _check_literal(key, text)
        # The resolvers of OmegaConf read the environment, or do what some package registered.
        if re.search(r"\$\{[^}]*:", text):
            raise InputError(f"its option {key} is computed ({text[:80]!r}); use a checkpoint that fairseq wrote")
        if "://" in text and text not in _ALLOWED_ADDRESSES and key != "distributed_init_method":
            raise InputError(f"its option {key} is an address ({text[:80]!r}); fetch the file, and override the option")


def _check_literal(key: str, text: str) -> None:
    try:
        evaluate_literal(text)
    except InputError as error:
        raise InputError(f"its option {key}: {error}") from None


def _check_sizes(leaves: list[tuple[str, Any]], weights: Mapping[str, Any]) -> None:
    """No model is begun that could only be larger than its weights."""
    tensors = [value for value in weights.values() if isinstance(value, Tensor)]
    width = max((size for value in tensors for size in value.shape), default=0)
    limits = (
        (_LAYERS, max(_MOST_LAYERS, len(weights))),
        (_WIDTHS, max(_MOST_WIDTH, width)),
        (_POSITIONS, max(_MOST_POSITIONS, width)),
    )
    largest: dict[str, float] = {}
    for key, value in leaves:
        for pattern, limit in limits:
            number = max(_numbers(value), default=0) if pattern.fullmatch(key) else 0
            if number > limit:
                raise InputError(f"its option {key} is {number}, more than its weights can have ({limit})")
            largest[key] = max(number, largest.get(key, 0))
    _check_total(largest, sum(value.numel() for value in tensors))


def _check_total(sizes: Mapping[str, float], num_weights: int) -> None:
    for side in ("encoder", "decoder"):
        width, inner = sizes.get(f"{side}_embed_dim", 0), sizes.get(f"{side}_ffn_embed_dim", 0)
        total = sizes.get(f"{side}_layers", 0) * width * (4 * width + 2 * inner)
        # Layers may share weights, and options that a model does not use have fairseq's defaults.
        if total > 8 * num_weights + (1 << 28):
            raise InputError(f"its options speak of an {side} of {total:.0f} weights, but it has {num_weights} in all")


def _numbers(value: Any) -> list[float]:
    """A size may stand there as text, several of them in one."""
    if isinstance(value, str):
        try:
            value = evaluate_literal(value)
        except InputError:
            return []
    values = value if isinstance(value, list | tuple) else [value]
    return [number for number in values if isinstance(number, int | float) and not isinstance(number, bool)]
