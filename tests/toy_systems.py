"""MIX, TAG, AD and GAD on the toy data, untrained but far from each other, as checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from tests import toy

ARCHITECTURES = {
    "mix": ("transformer_tiny",),
    "tag": ("transformer_tiny", "--domain-tags"),
    "ad": ("transformer_domain_adapter_tiny",),
    "gad": ("transformer_gated_adapter_tiny",),
}
MODEL_OPTIONS = {"gad": ("--gate-inputs", "states,source", "--gate-pairs", "64")}


def make_system(data: Path, name: str, *extra: str) -> tuple[Any, Any, Any]:
    """Task, options and model, all on the same base."""
    arch, *options = ARCHITECTURES[name]
    task, args = toy.make_task(data, *options, *MODEL_OPTIONS.get(name, ()), *extra, arch=arch)
    model = toy.make_model(task, args)
    _spread(model)
    toy.randomise_adapters(model)
    return task, args, model


def _spread(model: Any) -> None:
    """Embeddings so large that source, domain and beam matter to an untrained model."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for side in (model.encoder, model.decoder):
            weight = side.embed_tokens.weight
            weight.normal_(generator=generator)
            weight[side.padding_idx] = 0
        model.decoder.output_projection.weight[[0, 3]] = 0  # text has neither <s> nor <unk>


def write_systems(data: Path, root: Path) -> Path:
    """Write ``NAME/model.pt`` for each; returns the directory."""
    for name in ARCHITECTURES:
        task, args, model = make_system(data, name)
        args.source_lang, args.target_lang = task.cfg.source_lang, task.cfg.target_lang
        toy.write_checkpoint(root / name / "model.pt", args, model)
    return root
