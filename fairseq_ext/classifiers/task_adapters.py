"""Tasks in checkpoints of ``roberta_houlsby_adapter``: list, export, import and remove them.

A task's tensors are saved to ``adapters.safetensors``, and its description to ``manifest.json``. The manifest has the
SHA-256 of the file and of the base's encoder, to detect damaged files and incompatible bases.
"""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import OmegaConf
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fairseq_ext import install
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_path
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.models.checkpoints import model_options
from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel
from fairseq_ext.modules.task_parameters import SavedTask, is_of_task, task_names
from fairseq_ext.modules.tensor_file import write_tensors
from fairseq_ext.modules.token_types import SECOND_TEXT
from fairseq_ext.modules.tunings import ARCHITECTURE
from fairseq_ext.patches.checkpoints import save_checkpoint

WEIGHTS_FILE, MANIFEST_FILE = "adapters.safetensors", "manifest.json"
_DICT_FILE = "dict.txt"
_BASE = "encoder.sentence_encoder."


def load_task_model(checkpoint: Path, dictionary_folder: Path) -> RobertaHoulsbyAdapterModel:
    """Load a model with all its tasks for inference: in evaluation mode and single precision, on the CPU."""
    state = read_checkpoint(checkpoint)
    options = _options(state, checkpoint)
    if not _is_ours(options):
        raise InputError(
            f"{checkpoint}: is a {_arch(options)!r} model, which has no tasks; give a {ARCHITECTURE!r} model"
        )
    path = dictionary_folder / _DICT_FILE
    if not path.is_file():
        raise InputError(f"{path}: not found; give the folder with the dictionary of the checkpoint's base")
    dictionary = SentencePredictionTask.load_dictionary(str(path))
    model = RobertaHoulsbyAdapterModel.build_model(options, SimpleNamespace(source_dictionary=dictionary))
    model.load_state_dict(state["model"])
    return model.eval()


def save_task(checkpoint: Path, task: str, folder: Path) -> None:
    """Save a task's adapters, norms, head and labels without the base model."""
    state = read_checkpoint(checkpoint)["model"]
    _require_task(state, task, checkpoint)
    tensors = {key: value for key, value in state.items() if is_of_task(key, task)}
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / WEIGHTS_FILE) as temporary:
        write_tensors(temporary, tensors)
    manifest = {
        "task": task,
        **describe(state, task),
        "sha256": hash_path(folder / WEIGHTS_FILE),
        "base_sha256": base_fingerprint(state, with_token_types=_has_token_types(state, task)),
    }
    with atomic_write(folder / MANIFEST_FILE) as temporary:
        write_json(temporary, manifest)


def load_task(folder: Path, checkpoint: Path, output: Path) -> None:
    """Add a task written by :func:`save_task` to a checkpoint; all other weights stay identical."""
    manifest, tensors = _read_task(folder)
    state = read_checkpoint(checkpoint)
    task = manifest["task"]
    if task in task_names(state["model"]):
        raise InputError(f"{checkpoint}: already has a task {task!r}; remove it first")
    base = base_fingerprint(state["model"], with_token_types=_has_token_types(tensors, task))
    if base != manifest.get("base_sha256"):
        raise InputError(
            f"{checkpoint}: is not the base that {folder} was trained on; give the checkpoint that the task was "
            "saved from, or the one that its training started from"
        )
    _write_checkpoint(checkpoint, state, {**state["model"], **tensors}, output)


def remove_task(checkpoint: Path, task: str, output: Path) -> None:
    """Write a checkpoint without one of its tasks."""
    state = read_checkpoint(checkpoint)
    _require_task(state["model"], task, checkpoint)
    kept = {key: value for key, value in state["model"].items() if not is_of_task(key, task)}
    _write_checkpoint(checkpoint, state, kept, output)


def describe(state: Mapping[str, Tensor], task: str) -> dict[str, Any]:
    """Return the description of a task, and the number of its parameters."""
    saved = SavedTask.read(state, task)
    own = [value for key, value in state.items() if is_of_task(key, task) and not key.endswith(".description")]
    return {
        "tuning": saved.description.tuning,
        "bottleneck_dim": saved.bottleneck_dim,
        "activation_fn": saved.description.activation_fn,
        "num_classes": saved.num_classes,
        "labels": list(saved.description.labels),
        "parameters": sum(value.numel() for value in own),
    }


def base_fingerprint(state: Mapping[str, Tensor], *, with_token_types: bool = False) -> str:
    """Return the SHA-256 of the encoder shared by tasks: names, types, shapes and values.

    The head of the masked language model is excluded, since no task uses it. Token types are excluded unless the task
    has them.
    """
    digest = hashlib.sha256()
    # `version` is fairseq's format version, which it adds to old checkpoints.
    left_out = [f"{_BASE}version", *([] if with_token_types else [f"{_BASE}{SECOND_TEXT}"])]
    for key in sorted(key for key in state if key.startswith(_BASE) and key not in left_out):
        value = state[key].contiguous()
        digest.update(f"{key}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _has_token_types(state: Mapping[str, Tensor], task: str) -> bool:
    return SavedTask.read(state, task).description.token_types


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint to the CPU, without running pickled code."""
    install()
    state: dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    return state


def describe_tasks(checkpoint: Path) -> Iterator[str]:
    """Yield a line of description for each task of a checkpoint."""
    state = read_checkpoint(checkpoint)["model"]
    for task in task_names(state):
        about = describe(state, task)
        width = f" of width {about['bottleneck_dim']}" if about["bottleneck_dim"] else ""
        labels = ", ".join(about["labels"]) or "no labels"
        yield f"{task}: {about['tuning']}{width}, {about['parameters']:,} parameters, {labels}"


def _read_task(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the manifest and tensors of a saved task, and check that they match."""
    path, weights = folder / MANIFEST_FILE, folder / WEIGHTS_FILE
    for file in (path, weights):
        if not file.is_file():
            raise InputError(f"{file}: not found; a saved task is a folder with {WEIGHTS_FILE} and {MANIFEST_FILE}")
    manifest = read_json(path, "save the task again")
    task = str(manifest.get("task"))
    if hash_path(weights) != manifest.get("sha256"):
        raise InputError(f"{weights}: does not match the SHA-256 in {MANIFEST_FILE}; save the task again")
    try:
        tensors: dict[str, Tensor] = load_file(weights)
    except SafetensorError as error:
        raise InputError(f"{weights}: is damaged ({error}); save the task again") from None
    if task_names(tensors) != [task] or not all(is_of_task(key, task) for key in tensors):
        raise InputError(f"{weights}: its tensors are not those of the task {task!r}; save the task again")
    return manifest, tensors


def _require_task(state: Mapping[str, Tensor], task: str, checkpoint: Path) -> None:
    names = task_names(state)
    if task not in names:
        raise InputError(f"{checkpoint}: has no task {task!r}; it has {', '.join(names) or 'none'}")


def _write_checkpoint(checkpoint: Path, state: Mapping[str, Any], model: Mapping[str, Tensor], output: Path) -> None:
    """Write new weights with a checkpoint's options and this architecture; training cannot be resumed from it."""
    options = _options(state, checkpoint)
    if not _is_ours(options):
        options = Namespace(**{**vars(options), "arch": ARCHITECTURE, "_name": ARCHITECTURE})
    config: Any = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    changes = {"model": dict(model), "cfg": {**config, "model": options}, "args": None, "last_optimizer_state": None}
    with atomic_write(output) as temporary:
        save_checkpoint({**state, **changes}, temporary)


def _options(state: Mapping[str, Any], checkpoint: Path) -> Namespace:
    options = Namespace(**model_options(state))
    if not issubclass(ARCH_MODEL_REGISTRY.get(_arch(options), object), RobertaModel):
        raise InputError(
            f"{checkpoint}: has the architecture {_arch(options)!r}; give a 'roberta' or {ARCHITECTURE!r} model"
        )
    return options


def _is_ours(options: Namespace) -> bool:
    return issubclass(ARCH_MODEL_REGISTRY[_arch(options)], RobertaHoulsbyAdapterModel)


def _arch(options: Namespace) -> str | None:
    return getattr(options, "arch", None) or getattr(options, "_name", None)
