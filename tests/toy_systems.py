"""MIX, TAG, AD and GAD on the toy data, untrained but far from each other, as checkpoints."""

from collections.abc import Sequence
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


def model_input(task: Any, name: str, line: str, domain: str | None) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Source tokens, 1×S, and what else a system's model is told."""
    tag = [task.src_dict.index(f"<domain:{domain}>")] if name == "tag" else []
    source = torch.tensor([[*tag, *task.src_dict.encode_line(line, add_if_not_exist=False).tolist()]])
    if name not in ("ad", "gad") or domain is None:
        return source, {}
    return source, {"domain_ids": torch.tensor([toy.DOMAINS.index(domain)]), "is_forced": torch.tensor([True])}


def by_hand(
    data: Path, name: str, line: str, domain: str | None, prefix: Sequence[int] = (), max_len_b: int = 6
) -> list[int]:
    """Greedy search over a line's tokens without fairseq's tasks, hubs and generators."""
    task, _, model = make_system(data, name)
    source, extra = model_input(task, name, line, domain)
    found = [2]
    with torch.no_grad():
        while len(found) < max_len_b + 2 and (len(found) == 1 or found[-1] != 2):
            logits = model(source, torch.tensor([source.size(1)]), torch.tensor([found]), **extra)[0][0, -1]
            logits[[1, 2] if len(found) == 1 else [1]] = -torch.inf  # fairseq asks for one word at least
            forced = prefix[len(found) - 1] if len(found) <= len(prefix) else int(logits.argmax())
            found.append(2 if len(found) == max_len_b + 1 else forced)
    return found[1:]
