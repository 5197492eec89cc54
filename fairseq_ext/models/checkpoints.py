"""How a base checkpoint becomes an adapted one, and what fits which model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.freezing import is_adapter_key


def model_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a checkpoint's model; fairseq keeps them in a namespace or as a part of its configuration."""
    options = getattr(state.get("cfg"), "model", None)
    if OmegaConf.is_config(options):
        options = OmegaConf.to_container(options, resolve=True, enum_to_str=True)
    return dict(vars(options) if isinstance(options, Namespace) else options or {})


def add_fresh_adapters(model: nn.Module, state_dict: dict[str, Tensor]) -> None:
    """Complete the state dict of a base model with this model's own, fresh adapters, in place.

    Only a checkpoint without any adapter is a base model, and only one without any gate has plain
    adapters to put gates on. One that has some but not all of either is damaged or of another shape:
    its gaps stay, which :func:`check_fit` names.
    """
    own = {name: value for name, value in model.state_dict().items() if is_adapter_key(name)}
    present = {name for name in state_dict if is_adapter_key(name)}
    if not present:
        state_dict.update(own)
    elif not any(".router." in name for name in present):
        state_dict.update({name: value for name, value in own.items() if ".router." in name})


def check_fit(
    model: nn.Module, state_dict: dict[str, Tensor], prefix: str, _metadata: dict, strict: bool, *_: Any
) -> None:
    """A load-state-dict pre-hook: refuse, in one line, a checkpoint that is not of this model."""
    if prefix or not strict:
        return
    own = model.state_dict()
    problems = []
    # A language model has no encoder, RoBERTa's lies deeper.
    for key, kind in (
        ("encoder.embed_tokens.weight", "source symbols"),
        ("encoder.sentence_encoder.embed_tokens.weight", "symbols"),
        ("decoder.embed_tokens.weight", "symbols"),
    ):
        if key in own.keys() & state_dict.keys():
            rows, own_rows = len(state_dict[key]), len(own[key])
            if rows != own_rows:
                problems.append(f"it knows {rows} {kind}, the data's dictionary {own_rows}: wrong dictionary")
            break
    misshapen = [n for n in sorted(own.keys() & state_dict.keys()) if own[n].shape != state_dict[n].shape]
    for what, names in [
        ("missing", sorted(own.keys() - state_dict.keys())),
        ("unknown", sorted(state_dict.keys() - own.keys())),
        ("of another shape", misshapen),
    ]:
        if names:
            problems.append(f"{len(names)} entries {what}: {some_of(names)}")
    if problems:
        raise InputError(f"the checkpoint does not fit this model: {'; '.join(problems)}")


def some_of(names: Iterable[str], limit: int = 3) -> str:
    """The first names, separated by commas, for a message."""
    names = list(names)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
