"""A language model without training, and domains that it can tell apart, since each has words of its own."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingTask

from tests import toy, toy_text

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
        text = [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(lines)]
        toy_text.write_text(root / name, "train", text, dictionary)
    dictionary.save(str(root / "dict.txt"))
    (root / "domains.txt").write_text("".join(f"{name}\n" for name in sorted(domains)))
    return root


def make_checkpoint(path: Path, data: Path, arch: str = "transformer_lm_tiny", **options: Any) -> Path:
    """Write a model with random weights as fairseq would."""
    given = {"arch": arch, "optimizer": "adam", "tokens_per_sample": BLOCK, "task": "language_modeling"} | options
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    args = toy.parsed(data, *words)
    config = toy.composed(args)
    torch.manual_seed(1)
    model = LanguageModelingTask.setup_task(config.task).build_model(config.model)
    with torch.no_grad():
        for parameter in [parameter for bank in getattr(model, "banks", []) for parameter in bank.parameters()]:
            parameter.normal_(std=0.5)
    return toy.write_checkpoint(path, args, model)
