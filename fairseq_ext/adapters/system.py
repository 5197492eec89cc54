"""A model with adapters, read safely from a checkpoint or an exported system, and never modified in place."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext import install
from fairseq_ext.base.domain_names import DOMAINS_FILE
from fairseq_ext.base.domain_tree import DomainTree, single_tree, tree_from_json
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.convert.fairseq_model import build_without_weights
from fairseq_ext.models.adapter_transformer import AdapterConfig, TranslationAdapterConfig
from fairseq_ext.models.base_layout import FORM_OPTIONS
from fairseq_ext.models.checkpoints import model_options
from fairseq_ext.models.transformer_gated_adapter import GatedAdapterConfig
from fairseq_ext.modules.adapter_names import GUARDED, NAMES, names_entry, read_names
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.modules.language_model_options import HIERARCHICAL_ADAPTERS
from fairseq_ext.patches.checkpoints import save_checkpoint
from fairseq_ext.serve.graphs import exported
from fairseq_ext.serve.graphs.shortlists import keep_lexicons
from fairseq_ext.serve.runtime.manifest import CHECKPOINT_FILE, CLASSIFIER_FOLDER, Manifest, verify

State = dict[str, Tensor]
PLAIN, GATED = "transformer_domain_adapter", "transformer_gated_adapter"
# Models with adapters, each with its base model and the options that it adds.
_ADAPTERS = ("bottleneck_dim", "adapter_init_scale", "frozen_mode")
BASES = {PLAIN: "transformer", GATED: "transformer", HIERARCHICAL_ADAPTERS: "transformer_lm"}
_GATES = ("gate_temperature", "gate_inputs", "gate_pairs", "gate_base")
BASE_ROW = "router.base_weight"  # the gates' output for the base, which belongs to no adapter
ADDED = {
    PLAIN: (*_ADAPTERS, *FORM_OPTIONS),
    GATED: (*_ADAPTERS, *FORM_OPTIONS, *_GATES),
    HIERARCHICAL_ADAPTERS: _ADAPTERS,
}
_CONFIGS = {PLAIN: TranslationAdapterConfig, GATED: GatedAdapterConfig, HIERARCHICAL_ADAPTERS: AdapterConfig}


@dataclass(frozen=True)
class System:
    """A model with its state dict and its options."""

    path: Path
    # All entries of fairseq's file.
    checkpoint: Mapping[str, Any]
    model: State
    options: Mapping[str, Any]
    # Manifest of an exported system.
    manifest: Manifest | None = None

    @classmethod
    def read(cls, path: Path) -> System:
        """Read a checkpoint, or an exported system after checking all of its files."""
        manifest = verify(path) if path.is_dir() else None
        install()
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path / CHECKPOINT_FILE if manifest else path))
        options = model_options(state)
        if not options:
            raise InputError(f"{path}: the checkpoint has no options of a model; give a fairseq checkpoint")
        return cls(path, state, state["model"], options, manifest)

    @property
    def architecture(self) -> str:
        """fairseq's ``--arch``."""
        return str(self.options.get("arch") or self.options.get("_name"))

    @property
    def kind(self) -> str:
        """Name of the registered model."""
        return ARCH_MODEL_NAME_REGISTRY.get(self.architecture, self.architecture)

    @property
    def has_adapters(self) -> bool:
        return self.kind in BASES

    @property
    def has_gates(self) -> bool:
        return self.kind == GATED

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the adapters, in the order of their rows."""
        if NAMES in self.model:
            return tuple(read_names(self.model[NAMES]))
        return tuple(self.options["adapter_names"]) if self.tree is None else self.tree.names

    @cached_property
    def guarded(self) -> tuple[str, ...]:
        """Adapters that are active only if their gate's logit is the highest."""
        return tuple(read_names(self.model[GUARDED], GUARDED)) if GUARDED in self.model else ()

    @cached_property
    def tree(self) -> DomainTree | None:
        """The domain tree of hierarchical adapters; None for other models."""
        if self.kind != HIERARCHICAL_ADAPTERS:
            return None
        return tree_from_json(self.options["tree_json"], f"{self.path}: the model's tree")

    @property
    def domains(self) -> tuple[str, ...]:
        return self.names if self.tree is None else tuple(sorted(self.tree.domains))

    def is_row(self, key: str) -> bool:
        """Return whether an entry of the state dict has one row per adapter."""
        return is_row_key(key, self.kind)

    def shapes_of(self, kind: str, options: Mapping[str, Any]) -> dict[str, tuple]:
        """Return the shapes of adapters of a kind on this base: of a row, or of a shared tensor."""
        one = {
            "adapter_names": ["one"],
            "tree_json": single_tree(["one"]).to_json(),
            "train_gates": "",
            "train_nodes": "",
        }
        config = Namespace(**{**self.options, **options, **one, "arch": kind, "_name": kind})
        tables = (self.model.get(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder"))
        model = build_without_weights(config, [len(table) for table in tables if table is not None])
        entries = ((key, value.shape) for key, value in model.state_dict().items() if is_adapter_key(key))
        return {key: tuple(shape[1:] if is_row_key(key, kind) else shape) for key, shape in entries}

    def rows(self, name: str) -> State:
        """Return an adapter's row of every stacked tensor."""
        row = self.names.index(name)
        return {key: value[row] for key, value in self.model.items() if self.is_row(key)}

    def adapters(self) -> dict[str, State]:
        """Return all adapters' rows by name; an empty dictionary for a model without adapters."""
        return {name: self.rows(name) for name in self.names} if self.has_adapters else {}

    def require_adapters(self) -> None:
        if not self.has_adapters:
            raise InputError(
                f"{self.path}: is a {self.architecture!r}, which has no adapters; give one of {', '.join(BASES)}, or "
                "attach adapter files to it"
            )

    def require_domain(self, name: str) -> None:
        if name not in self.domains:
            raise InputError(f"{self.path}: has no domain {name!r}; it has {', '.join(self.domains)}")

    def changed(
        self,
        adapters: Mapping[str, State],
        guarded: Iterable[str] = (),
        tree: DomainTree | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> System:
        """Return the same system with other adapters, sorted or in the order of the tree's nodes."""
        names = sorted(adapters) if tree is None else list(tree.names)
        model = {key: value for key, value in self.model.items() if key not in (NAMES, GUARDED)}
        for key, first in adapters[names[0]].items():
            dtype = model.get(key, first).dtype
            model[key] = torch.stack([adapters[name][key].to(dtype) for name in names])
        model[NAMES] = names_entry(names)
        if guarded := sorted(guarded):
            model[GUARDED] = names_entry(guarded)
        new = {**self.options, **(options or {})}
        if tree is None:
            new["adapter_names"] = names
        else:
            new |= {"tree_json": tree.to_json(), "tree": "", "train_nodes": ""}
        if "train_gates" in new:
            new["train_gates"] = ""
        return replace(self, model=model, options=new)

    def write(self, output: Path) -> None:
        """Write the system to a new path, in the format that it was read from. Training cannot resume from it."""
        refuse_existing(output)
        if self.manifest is None:
            with atomic_write(output) as temporary:
                self.write_checkpoint(temporary)
            return
        # The scores belong to the original system.
        manifest = replace(self.manifest, domains=self.domains, architecture=self.architecture, scores=None)
        if manifest.classifier and self.domains != self.manifest.domains:
            manifest = replace(manifest, classifier=None)
            print(f"{self.path}: its classifier is left out, because it only knows the old domains", file=sys.stderr)
        with exported.writing(output) as folder:
            for name in self.manifest.files:
                if name.startswith(f"{CLASSIFIER_FOLDER}/") and manifest.classifier is None:
                    continue
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(self.path / name, folder / name)
            (folder / DOMAINS_FILE).write_text("".join(f"{name}\n" for name in self.domains), encoding="utf-8")
            self.write_checkpoint(folder / CHECKPOINT_FILE)
            keep_lexicons(folder, exported.write_model(folder, self.entries), self.domains)
            exported.complete(folder, manifest)

    def write_checkpoint(self, path: Path) -> None:
        """Write a checkpoint with weights and options, without the optimizer's state."""
        save_checkpoint(self.entries, path)

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of a checkpoint with weights and options, without the optimizer's state."""
        config: Any = OmegaConf.to_container(self.checkpoint["cfg"], resolve=True, enum_to_str=True)
        was_namespace = isinstance(self.checkpoint["cfg"]["model"], Namespace)
        config["model"] = Namespace(**self.options) if was_namespace else dict(self.options)
        if isinstance(config.get("task"), dict) and "train_domains" in config["task"]:
            config["task"]["train_domains"] = ""
        history = {key: value for key, value in self.checkpoint["optimizer_history"][-1].items() if key != "optimizer"}
        return {
            "args": None,
            "cfg": config,
            "model": self.model,
            "optimizer_history": [history],
            "task_state": self.checkpoint.get("task_state", {}),
            "extra_state": {},
            "last_optimizer_state": None,
        }


def is_row_key(key: str, kind: str) -> bool:
    """Return whether an entry of a state dict has one row per adapter; in trees, all adapters share the norms."""
    shared = ("norm_weight", "norm_bias") if kind == HIERARCHICAL_ADAPTERS else (BASE_ROW,)
    return is_adapter_key(key) and not key.endswith(shared)


def refuse_existing(output: Path) -> None:
    if output.exists() or output.is_symlink():
        raise InputError(f"{output}: already exists; give another name")


def kind_options(system: System) -> dict[str, Any]:
    """Return the options that adapters add to the base's; missing options have their defaults."""
    config: Any = _CONFIGS[system.kind].from_args(Namespace(**system.options))
    values = {name: getattr(config, name) for name in ADDED[system.kind]}
    return {name: str(value) if isinstance(value, Enum) else value for name, value in values.items()}
