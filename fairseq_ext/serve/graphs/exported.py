"""Export of systems: a directory with all files needed for translation, independent of the training data.

The directory is built under another name and then renamed, so that an exported system is always complete.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fairseq_ext import install
from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file, relative_files
from fairseq_ext.base.json_file import write_json
from fairseq_ext.base.staging import Staging, locked
from fairseq_ext.serve.graphs.shortlists import write_shortlist
from fairseq_ext.serve.runtime.manifest import (
    CHECKPOINT_FILE,
    CLASSIFIER_FOLDER,
    FORMAT,
    MANIFEST_FILE,
    PRECISIONS,
    FileRecord,
    Manifest,
    digest,
    parse,
    read_manifest,
)
from fairseq_ext.serve.runtime.vocabulary import VOCABULARY_FILE, Vocabulary
from fairseq_ext.text.subwords import copy_subwords

_PACKAGES = ("fairseq-fixed", "torch", "sentencepiece", "sacremoses", "scikit-learn")


@contextmanager
def writing(directory: Path) -> Iterator[Path]:
    """Yield a folder for building an exported system. It becomes ``directory`` if the block ends without an error."""
    directory = directory.absolute()
    _refuse_others(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        staging = Staging(directory)
        folder = staging.start("export")
        try:
            yield folder
            read_manifest(folder)
        except BaseException:
            staging.clear()
            raise
        staging.finish()


def complete(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, which covers all files currently in the folder."""
    paths = {name: folder / name for name in relative_files(folder) if name != MANIFEST_FILE}
    files = {name: FileRecord(path.stat().st_size, hash_file(path)) for name, path in paths.items()}
    versions = {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}
    content = dataclasses.replace(manifest, files=files, versions=versions).content
    content = json.loads(json.dumps({"format": FORMAT, **content}))
    parse(content, folder / MANIFEST_FILE)
    write_json(folder / MANIFEST_FILE, {**content, "sha256": digest(content)})


@dataclass(frozen=True)
class Parts:
    """Inputs of an export."""

    checkpoint: Path  # fairseq checkpoint
    data: Path  # directory with dictionaries, domains and subword models
    classifier: Path | None = None  # folder of the saved classifier

    def write(self, folder: Path, manifest: Manifest) -> None:
        """Write the exported system into an empty folder. Files and versions of the manifest are determined here."""
        for name in (*(f"dict.{lang}.txt" for lang in manifest.languages), DOMAINS_FILE):
            if not (self.data / name).is_file():
                raise InputError(f"{self.data / name}: not found, but needed for the export")
            shutil.copyfile(self.data / name, folder / name)
        copy_subwords(self.data, folder, manifest.languages)
        if self.classifier is not None:
            shutil.copytree(self.classifier, folder / CLASSIFIER_FOLDER)
        write_weights(folder / CHECKPOINT_FILE, self.checkpoint)
        write_shortlist(folder, self.data, manifest.languages, write_model(folder))
        complete(folder, manifest)


def write_model(folder: Path, entries: Mapping[str, Any] | None = None) -> Vocabulary:
    """Write graphs and vocabulary of the checkpoint in a folder, and return the vocabulary.

    Args:
        entries: entries of the checkpoint, if they are in memory already.
    """
    from fairseq_ext.serve.graphs.model_graphs import write_graphs

    model, task = _load(folder, entries)
    for precision in PRECISIONS:
        write_graphs(model, folder, precision)
    vocabulary = _vocabulary(model, task)
    vocabulary.write(folder / VOCABULARY_FILE)
    return vocabulary


def _load(folder: Path, entries: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return the model of a checkpoint in evaluation mode, and its task."""
    from fairseq import checkpoint_utils, tasks
    from omegaconf import OmegaConf
    from torch import nn

    install()
    path = folder / CHECKPOINT_FILE
    state = entries or checkpoint_utils.load_checkpoint_to_cpu(str(path))
    config = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    config.task.data = str(folder.absolute())
    task = tasks.setup_task(config.task, from_checkpoint=True)
    if not hasattr(task, "typed_domains"):
        raise InputError(f"{path}: not trained with --task multi_domain_translation; use another")
    task.load_state_dict(state.get("task_state", {}))
    model = task.build_model(config.model, from_checkpoint=True)
    weights = {name: weight.float() for name, weight in state["model"].items()}
    model.upgrade_state_dict(weights)
    # The model takes these tensors instead of copying them: the adapters of many domains need much memory.
    nn.Module.load_state_dict(model, weights, assign=True)
    return model.eval(), task


def _vocabulary(model: Any, task: Any) -> Vocabulary:
    source, target, languages = task.source_dictionary, task.target_dictionary, task.language_tokens
    last = target.eos() if languages.end is None else languages.end
    around = [] if languages.source is None else [languages.source]
    longest_source, longest_target = model.max_positions()
    return Vocabulary(
        source=source.symbols,
        target=target.symbols,
        pad=target.pad(),
        eos=source.eos(),
        unk=target.unk(),
        first=last,
        last=last,
        before=[] if languages.is_last else around,
        after=around if languages.is_last else [],
        prefix=[] if languages.prefix is None else [languages.prefix],
        not_text=sorted({source.bos(), source.pad(), source.eos(), *source.reserved}),
        not_printed=sorted({target.bos(), target.eos(), last, *target.reserved}),
        has_tags=bool(task.cfg.domain_tags),
        longest_source=min(longest_source, task.max_positions()[0]),
        longest_target=longest_target,
    )


def write_weights(path: Path, checkpoint: Path) -> None:
    """Write a copy of a checkpoint that has the weights and options, but no training state."""
    import torch

    from fairseq_ext.patches.checkpoints import check_checkpoint, save_checkpoint

    install()
    check_checkpoint(checkpoint)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    history = {key: value for key, value in state["optimizer_history"][-1].items() if key != "optimizer"}
    kept = {key: state[key] for key in ("model", "task_state") if key in state}
    options = {key: _without_paths(state.get(key)) for key in ("args", "cfg")}
    save_checkpoint({**options, **kept, "optimizer_history": [history], "extra_state": {}}, path)


def _without_paths(options: Any) -> Any:
    """Remove paths and addresses of the training machine from a checkpoint's options."""
    if isinstance(options, dict):
        return {key: _without_paths(value) for key, value in options.items()}
    if isinstance(options, list | tuple):
        return type(options)(_without_paths(value) for value in options)
    if hasattr(options, "__dict__"):
        return type(options)(**{key: _without_paths(value) for key, value in vars(options).items()})
    return "" if isinstance(options, str) and "/" in options else options


def _refuse_others(directory: Path) -> None:
    """Refuse to replace a directory that is not an exported system, is damaged, or has additional files."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    try:
        known = {*read_manifest(directory).files, MANIFEST_FILE}
    except InputError:
        known = set()
    if not known or known != {*relative_files(directory)}:
        raise InputError(
            f"{directory}: exists and is not an unchanged export; move it away or choose another directory"
        )
