"""Checkpoints that should run something, in every form that fairseq reads; each leaves a folder ``PWN`` if it does."""

import copy
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from tests import toy

CODE = "__import__('os').mkdir('PWN')"
LAYERS = f"[({CODE}, 3)]"
FCONV = {"_name": "fconv", "arch": "fconv", "encoder_layers": LAYERS, "decoder_layers": LAYERS}
TRANSLATION = {"_name": "translation", "data": "", "source_lang": "en", "target_lang": "pl"}

State = dict[str, Any]


class Runs:
    """Makes the folder when it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.mkdir, ("PWN",)


class ForgedType:
    """A number whose type says that it is an object."""

    def __init__(self, name: str, flags: int) -> None:
        self.name, self.flags = name, flags

    def __reduce__(self) -> tuple:
        return np.dtype, (self.name, False, True), (3, "<", None, None, None, -1, -1, self.flags)


class ForgedArray:
    def __init__(self, dtype: Any, content: Any) -> None:
        self.state = (1, (2,), dtype, False, content)

    def __reduce__(self) -> tuple:
        return np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), self.state


def make_good(data: Path, arch: str = "transformer_gated_adapter_tiny") -> State:
    """A checkpoint as fairseq-train writes it."""
    task, args = toy.make_task(data, arch=arch)
    config: Any = OmegaConf.to_container(toy.composed(args), resolve=True, enum_to_str=True)
    config["model"] = vars(config["model"]) if isinstance(config["model"], Namespace) else config["model"]
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 3}
    return {
        "args": None, "cfg": config, "model": toy.make_model(task, args).state_dict(), "optimizer_history": [history],
        "task_state": {}, "extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None,
    }  # fmt: skip


def with_config(**sections: Any) -> Callable[[State], State]:
    """Sections of the configuration changed, or, if it is a string, replaced."""

    def change(state: State) -> State:
        for name, values in sections.items():
            own = state["cfg"].get(name) or {}
            state["cfg"][name] = {**own, **values} if isinstance(values, dict) else values
        return state

    return change


def replaced(**entries: Any) -> Callable[[State], State]:
    return lambda state: {**state, **entries}


def as_namespace(section: str, **values: Any) -> Callable[[State], State]:
    """A section of the configuration as fairseq stores that of legacy models."""

    def change(state: State) -> State:
        state["cfg"][section] = Namespace(**{**(state["cfg"].get(section) or {}), **values})
        return state

    return change


def as_legacy(**values: Any) -> Callable[[State], State]:
    """Only ``args``, flat, as before there were configurations."""

    def change(state: State) -> State:
        flat = {key: value for section in state["cfg"].values() if isinstance(section, dict) for key, value in
                section.items() if not key.startswith("_")}  # fmt: skip
        return {**state, "cfg": None, "args": Namespace(**{**flat, **values})}

    return change


def bomb(levels: int = 60) -> list:
    """Nested lists, each twice in the next: few objects, endless to walk through."""
    value: list = []
    for _ in range(levels):
        value = [value, value]
    return value


FORMS: dict[str, Callable[[State], State]] = {
    "fconv": lambda state: {**state, "cfg": {"model": FCONV, "task": TRANSLATION, "common": {}}},
    "fconv as legacy": as_legacy(**{**FCONV, **TRANSLATION, "task": "translation"}),
    "fconv in omegaconf": lambda state: {**state, "cfg": OmegaConf.create({"model": FCONV, "task": TRANSLATION})},
    "cutoff as namespace": as_namespace("model", adaptive_softmax_cutoff=CODE),
    "betas": with_config(optimizer={"adam_betas": f"{CODE} or (0.9, 0.98)"}),
    "speech task": with_config(task={"_name": "audio_finetuning", "post_save_script": "mkdir PWN"}),
    "name that is no name": with_config(model={"_name": ["fconv"]}),
    "no name": lambda state: {**state, "cfg": {"model": {"encoder_layers": LAYERS}, "task": TRANSLATION}},
    "resolver": with_config(task={"source_lang": "${oc.env:HOME}"}),
    "address": with_config(bpe={"_name": "sentencepiece", "sentencepiece_model": "https://example.org/pwn.model"}),
    "bert": with_config(bpe={"_name": "bert", "bpe_vocab_file": None}),
    "options without end": with_config(task={"more": bomb()}),
    "unpickled": replaced(extra=Runs()),
    "array of objects": replaced(extra=np.array([Runs()], dtype=object)),
    "forged number": replaced(extra=ForgedArray(ForgedType("i8", 63), [Runs(), 2])),
    "forged pointer": replaced(extra=ForgedArray(ForgedType("i8", 4), b"A" * 16)),
    "text as type": replaced(extra=ForgedArray(ForgedType("S8", 0), b"A" * 16)),
}


def write(path: Path, good: State, form: str) -> Path:
    """Write the checkpoint in that form."""
    torch.save(FORMS[form](copy.deepcopy(good)), path)
    return path
