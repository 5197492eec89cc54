"""Tiny random models in the layouts of others, with checkpoints as their code writes them."""

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq import options, tasks

from tests import toy

LANGUAGES = "de,en,pl"
SIZES = [
    *("--encoder-layers", "2", "--decoder-layers", "1", "--encoder-embed-dim", "16", "--decoder-embed-dim", "16"),
    *("--encoder-ffn-embed-dim", "24", "--decoder-ffn-embed-dim", "20"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "4"),
]
MBART = [
    *("--task", "translation_from_pretrained_bart", "--langs", LANGUAGES, "--arch", "mbart_large", *SIZES),
    *("--encoder-normalize-before", "--decoder-normalize-before", "--layernorm-embedding"),
    *("--encoder-learned-pos", "--decoder-learned-pos", "--max-source-positions", "40", "--max-target-positions", "40"),
]
M2M = [
    *("--task", "translation_multi_simple_epoch", "--langs", LANGUAGES, "--lang-pairs", "en-pl"),
    *("--encoder-langtok", "src", "--decoder-langtok", "--arch", "transformer_wmt_en_de_big", *SIZES),
    *("--encoder-normalize-before", "--decoder-normalize-before", "--share-all-embeddings"),
]
MBART50 = [*M2M, "--lang-tok-style", "mbart", "--no-scale-embedding"]


def pretrained_data(data: Path, folder: Path) -> Path:
    """Data of domains, with dictionaries that know no domain: those of a pretrained model."""
    shutil.copytree(data, folder)
    for path in folder.glob("dict.*.txt"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "domain:" not in line))
        for domain in toy.DOMAINS:  # where fairseq's own tasks look
            shutil.copy(path, folder / domain)
    return folder


def make(data: Path, arguments: list[str], domain: str = "law") -> tuple[Any, Namespace, Any]:
    """fairseq's own task over one domain, its arguments, and a model far from its start."""
    pair = ["--source-lang", "en", "--target-lang", "pl"]
    line = [str(data / domain), *pair, "--cpu", "--optimizer", "adam", *arguments]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    task = tasks.setup_task(args)
    task.args = args  # which fairseq's task for mBART reads, but has not
    torch.manual_seed(3)
    model = task.build_model(args).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
        for side in (model.encoder, model.decoder):
            side.embed_tokens.weight[side.padding_idx] = 0
            if side.embed_positions is not None and hasattr(side.embed_positions, "weight"):
                side.embed_positions.weight[side.padding_idx] = 0
    return task, args, model


def write_old(path: Path, args: Namespace, base: Any, **entries: Any) -> Path:
    """A checkpoint as fairseq wrote it before 2021: options in a namespace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {"args": args, "model": {**base.state_dict(), **entries.pop("model", {})}}
    torch.save({**state, "optimizer_history": [{"num_updates": 1}], "extra_state": {}, **entries}, path)
    return path
