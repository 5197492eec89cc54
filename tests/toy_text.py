"""A toy world for language models: text of a few domains with words of their own, binarised, and a tree over them."""

import json
import random
from pathlib import Path
from typing import Any

from fairseq import tasks
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from tests import toy

DOMAINS = toy.DOMAINS
NODES = {"root": None, "science": "root", "law": "science", "med": "science", "sub": "root"}
TREE = {
    "nodes": [{"name": name, "parent": parent} for name, parent in NODES.items()],
    "domains": {name: name for name in DOMAINS},
}
HIER, PLAIN = "transformer_lm_hier_adapter_tiny", "transformer_lm_tiny"
WIDTH = 32  # of the tiny models
BLOCK = 8


def make_dictionary(domains: list[str] = DOMAINS) -> Dictionary:
    """Ten words of each domain, and ten that all share."""
    dictionary = Dictionary()
    for symbol in [f"{kind}{i}" for kind in ["all", *domains] for i in range(10)]:
        dictionary.add_symbol(symbol)
    return dictionary


def write_text(directory: Path, split: str, lines: list[str], dictionary: Dictionary) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    text = directory / f"{split}.txt"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    FileBinarizer.multiprocess_dataset(
        str(text),
        "mmap",
        VocabularyDatasetBinarizer(dictionary, append_eos=True),
        str(directory / split),
        vocab_size=len(dictionary),
        num_workers=1,
    )
    text.unlink()


def make_lines(domain: str, count: int, rng: random.Random) -> list[str]:
    words = [f"{kind}{i}" for kind in ("all", domain) for i in range(10)]
    return [" ".join(rng.choices(words, k=rng.randint(1, BLOCK - 1))) for _ in range(count)]


def make_text(
    root: Path,
    domains: list[str] = DOMAINS,
    sizes: tuple[int, ...] = (40, 20, 10),
    dictionary: Dictionary | None = None,
) -> Path:
    """A data directory with splits train, valid and test; returns it.

    Args:
        domains: sorted.
        sizes: lines of training text a domain.
        dictionary: that of other data, for unseen domains.
    """
    data = root / "text-bin"
    dictionary = dictionary or make_dictionary(domains)
    rng = random.Random(7)
    for name, size in zip(domains, sizes, strict=True):
        for split, count in (("train", size), ("valid", 9), ("test", 7)):
            write_text(data / name, split, make_lines(name, count, rng), dictionary)
    dictionary.save(str(data / "dict.txt"))
    (data / "domains.txt").write_text("".join(f"{name}\n" for name in domains), encoding="utf-8")
    return data


def write_tree(path: Path, content: dict = TREE) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def make_task(data: Path, *extra: str, arch: str = HIER) -> tuple[Any, Any]:
    """The task as the command line would set it up, and the model's options."""
    # fmt: off
    args = toy.parsed(
        data, "--task", "multi_domain_language_modeling", "--arch", arch, "--cpu",
        "--optimizer", "adam", "--lr", "0.01", "--max-tokens", "100", "--tokens-per-sample", str(BLOCK), *extra,
    )
    # fmt: on
    return tasks.setup_task(args), toy.model_options(args)
