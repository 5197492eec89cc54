"""What hierarchical adapters cost: parameters, FLOPs, and how often they are trained (the paper's Table 1, §2.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
from fairseq import checkpoint_utils

from fairseq_ext import registration  # noqa: F401  the checkpoints' models
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.training.freezing import is_adapter_key

_EMBEDDINGS = ("embed_tokens", "embed_positions", "output_projection")


def costs_of(model: Any, checkpoint: Path) -> dict[str, Any]:
    """One entry of Table 1.

    Args:
        model: the language model; one without adapters has no figures of theirs.
        checkpoint: it was loaded from; says how often it was updated.

    Returns:
        ``base`` and ``added`` parameters, ``active`` ones of those added (on a path of mean length, and the shared
        norms), ``base_flops`` and ``added_flops`` of a token (2N, N without embeddings; 4·L·H·b an adapter),
        ``updates``, and ``leaf_updates``: updates times the share of the text that the mean leaf sees, which is one by
        the number of leaves however large their domains are.
    """
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    base = {name: size for name, size in sizes.items() if not is_adapter_key(name)}
    dense = sum(size for name, size in base.items() if not any(part in name for part in _EMBEDDINGS))
    record: dict[str, Any] = {"base": sum(base.values()), "base_flops": 2 * dense}
    if not hasattr(model, "tree"):
        return record
    banks: list[AdapterBank] = model.banks
    length = model.tree.mean_path_length
    per_node = sum(getattr(bank, kind)[0].numel() for bank in banks for kind in bank.row_names)
    added = sum(sizes.values()) - record["base"]
    updates = _updates_of(checkpoint)
    return record | {
        "bottleneck_dim": banks[0].bottleneck_dim,
        "num_adapters": len(model.tree.names),
        "mean_path_length": length,
        "added": added,
        "active": round(added - (len(model.tree.names) - length) * per_node),
        "added_flops": 4 * len(banks) * banks[0].embed_dim * banks[0].bottleneck_dim * length,
        "updates": updates,
        "leaf_updates": round(updates / len(model.tree.leaves)),
    }


def _updates_of(checkpoint: Path) -> int:
    """How often a model was updated until this checkpoint of it."""
    history = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint)).get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))
