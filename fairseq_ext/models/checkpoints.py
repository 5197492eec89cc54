"""Extension of base checkpoints by adapters, and checks that a checkpoint matches a model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.freezing import is_adapter_key


def model_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model options of a checkpoint; fairseq stores them as a namespace or in its configuration."""
    options = getattr(state.get("cfg"), "model", None)
    if OmegaConf.is_config(options):
        options = OmegaConf.to_container(options, resolve=True, enum_to_str=True)
    return dict(vars(options) if isinstance(options, Namespace) else options or {})


def add_fresh_adapters(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Add this model's newly initialised adapters to the state dict of a base model, in place.

    A checkpoint without any adapter is a base model. A checkpoint with adapters but without any gate has
    plain adapters, to which gates are added. If some adapters or gates are missing, the checkpoint is
    damaged or of another layout; it is left incomplete, and :func:`check_fit` reports it.
    """
    fresh = {name: value for name, value in model.state_dict().items() if is_adapter_key(name)}
    present = {name for name in state_dict if is_adapter_key(name)}
    if not present:
        state_dict.update(fresh)
    elif not any(".router." in name for name in present):
        state_dict.update({name: value for name, value in fresh.items() if ".router." in name})


def check_fit(
    model: nn.Module, state_dict: dict[str, Tensor], prefix: str, _metadata: dict, strict: bool, *_: Any
) -> None:
    """Reject checkpoints of other models with a one-line error; a load-state-dict pre-hook."""
    if prefix or not strict:
        return
    expected = model.state_dict()
    problems = []
    # A language model has no encoder; RoBERTa's is nested deeper.
    for key, kind in (
        ("encoder.embed_tokens.weight", "source symbols"),
        ("encoder.sentence_encoder.embed_tokens.weight", "symbols"),
        ("decoder.embed_tokens.weight", "symbols"),
    ):
        if key in expected.keys() & state_dict.keys():
            rows, needed = len(state_dict[key]), len(expected[key])
            if rows != needed:
                problems.append(f"it has {rows} {kind}, but the data's dictionary has {needed}: wrong dictionary")
            break
    misshapen = [n for n in sorted(expected.keys() & state_dict.keys()) if expected[n].shape != state_dict[n].shape]
    for what, names in [
        ("missing", sorted(expected.keys() - state_dict.keys())),
        ("unknown", sorted(state_dict.keys() - expected.keys())),
        ("of another shape", misshapen),
    ]:
        if names:
            problems.append(f"{len(names)} entries {what}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}")
    if problems:
        raise InputError(f"the checkpoint does not match this model: {'; '.join(problems)}")
