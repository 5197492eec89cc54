"""What hierarchical adapters cost: parameters, FLOPs, and how often they are trained (the paper's Table 1, §2.4)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
from fairseq import checkpoint_utils
from fairseq.data import Dictionary, data_utils
from torch import nn

from fairseq_ext import registration  # noqa: F401  the checkpoints' models
from fairseq_ext.data.multi_domain_dataset import upsampling_repetitions
from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.training.freezing import is_adapter_key

_EMBEDDINGS = ("embed_tokens", "embed_positions", "output_projection")


def costs_of(model: Any, checkpoint: Path, data: Path) -> dict[str, Any]:
    """One entry of Table 1.

    Args:
        model: the language model; one without adapters has no figures of theirs.
        checkpoint: it was loaded from; says how often it was updated.
        data: directory that it was trained on.

    Returns:
        ``base`` and ``added`` parameters, ``active`` ones of those added (on a path of mean length, and the shared
        norms), ``base_flops`` and ``added_flops`` of a token (2N, N without embeddings; 4·L·H·b an adapter),
        ``updates``, and ``leaf_updates``: updates times the share of the text that the mean leaf sees.
    """
    sizes = {name: parameter.numel() for name, parameter in _parameters(model)}
    base = {name: size for name, size in sizes.items() if not is_adapter_key(name)}
    dense = sum(size for name, size in base.items() if not any(part in name for part in _EMBEDDINGS))
    record: dict[str, Any] = {"base": sum(base.values()), "base_flops": 2 * dense}
    if not hasattr(model, "tree"):
        return record
    banks: list[AdapterBank] = model.banks
    length = model.tree.mean_path_length
    per_node = sum(getattr(bank, kind)[0].numel() for bank in banks for kind in AdapterBank.STACKED)
    added = sum(sizes.values()) - record["base"]
    updates, leaf_share = _training_of(checkpoint, data, model.tree)
    return record | {
        "bottleneck_dim": banks[0].bottleneck_dim,
        "num_adapters": len(model.tree.names),
        "mean_path_length": length,
        "added": added,
        "active": round(added - (len(model.tree.names) - length) * per_node),
        "added_flops": 4 * len(banks) * banks[0].embed_dim * banks[0].bottleneck_dim * length,
        "updates": updates,
        "leaf_updates": round(updates * leaf_share),
    }


def share_of_leaves(tree: DomainTree, sizes: Mapping[str, int], mode: str, temperature: float) -> float:
    """What share of the training text the mean leaf sees.

    Args:
        tree: its domains are trained on.
        sizes: text of each domain, in any unit.
        mode: of up-sampling; see :func:`~fairseq_ext.data.multi_domain_dataset.upsampling_repetitions`.
        temperature: likewise.
    """
    domains = sorted(sizes)
    repetitions = upsampling_repetitions([sizes[name] for name in domains], mode, temperature)
    seen = {name: sizes[name] * times for name, times in zip(domains, repetitions, strict=True)}
    by_leaf = [
        sum(seen[name] for name, row in tree.domains.items() if tree.names[row] == leaf and name in seen)
        for leaf in tree.leaves
    ]
    return statistics.fmean(by_leaf) / sum(seen.values())


def _training_of(checkpoint: Path, data: Path, tree: DomainTree) -> tuple[int, float]:
    """Updates until the checkpoint, and the mean leaf's share of the text."""
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    history = state.get("optimizer_history") or [{}]
    task = (state.get("cfg") or {}).get("task") or {}
    dictionary = Dictionary.load(str(data / "dict.txt"))
    given = [name.strip() for name in (getattr(task, "train_domains", None) or "").split(",") if name.strip()]
    domains = given or read_domain_names(data / DOMAINS_FILE)
    sizes = {name: _num_tokens(data / name / "train", dictionary) for name in domains if name in tree.domains}
    mode = getattr(task, "upsampling", None) or "none"
    temperature = getattr(task, "upsampling_temperature", None) or 1.0
    return int(history[-1].get("num_updates", 0)), share_of_leaves(tree, sizes, str(mode), float(temperature))


def _num_tokens(path: Path, dictionary: Dictionary) -> int:
    # Its sizes are a view of a file that closes with the dataset.
    dataset = data_utils.load_indexed_dataset(str(path), dictionary)
    return int(dataset.sizes.sum())


def _parameters(model: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Each once, however often it is used."""
    return list(model.named_parameters(remove_duplicate=True))
