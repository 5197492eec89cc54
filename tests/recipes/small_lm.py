"""A language model without training, and domains that it can tell apart, since each has words of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq import options as fairseq_options
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingTask
from omegaconf import OmegaConf

from tests import toy

WORDS = [f"w{number}" for number in range(40)]
# Some words of its own each; law and tax share theirs to a large part, as do med and bio.
DOMAINS = {"bio": WORDS[:10], "law": WORDS[20:30], "med": WORDS[2:12], "tax": WORDS[22:32]}
BLOCK = 16


def make_data(root: Path, domains: Mapping[str, list[str]] = DOMAINS, lines: int = 60, seed: int = 3) -> Path:
    """A data directory with training text of lines of 1 to 12 words."""
    dictionary = Dictionary()
    for word in WORDS:
        dictionary.add_symbol(word)
    rng = random.Random(seed)
    for name, words in domains.items():
        (root / name).mkdir(parents=True)
        text = root / name / "train"
        text.write_text("".join(" ".join(rng.choices(words, k=rng.randint(1, 12))) + "\n" for _ in range(lines)))
        FileBinarizer.multiprocess_dataset(
            str(text),
            "mmap",
            VocabularyDatasetBinarizer(dictionary, append_eos=True),
            str(text),
            vocab_size=len(dictionary),
            num_workers=1,
        )
        text.unlink()
    dictionary.save(str(root / "dict.txt"))
    (root / "domains.txt").write_text("".join(f"{name}\n" for name in sorted(domains)))
    return root


def make_checkpoint(path: Path, data: Path, arch: str = "transformer_lm_tiny", **options: Any) -> Path:
    """Write a model with random weights as fairseq would."""
    given = {"tokens_per_sample": BLOCK, "task": "language_modeling"} | options
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    args = fairseq_options.parse_args_and_arch(
        fairseq_options.get_training_parser(), [str(data), "--arch", arch, "--optimizer", "adam", *words]
    )
    config = toy.composed(args)
    torch.manual_seed(1)
    model = LanguageModelingTask.setup_task(config.task).build_model(config.model)
    if hasattr(model, "banks"):
        with torch.no_grad():
            for bank in model.banks:
                for parameter in bank.parameters():
                    parameter.normal_(std=0.5)
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(config),
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 1, "best_loss": None}],
        "extra_state": {},
    }
    torch.save(state, path)
    return path


def make_tree_file(path: Path) -> Path:
    """A tree over the domains."""
    nodes = [{"name": "top", "parent": None}, *({"name": name, "parent": "top"} for name in DOMAINS)]
    path.write_text(json.dumps({"nodes": nodes, "domains": {name: name for name in DOMAINS}}))
    return path
