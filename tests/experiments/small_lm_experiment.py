"""A small experiment with language models: text of four domains in two pairs, and one nobody trains on, by rule."""

import json
import random
from pathlib import Path
from typing import Any

from tests.experiments.experiment_file import write_experiment

# Domains of a pair share their nouns, and each has verbs of its own.
NOUNS = {"bank": ["account", "credit", "loan", "rate"], "garden": ["tree", "flower", "seed", "root"]}
VERBS = {"ask": ["find", "show", "count"], "do": ["open", "close", "change"], "new": ["find", "close", "lose"]}
DOMAINS = [f"{place}_{kind}" for place in NOUNS for kind in ("ask", "do")]
UNSEEN = ["garden_new"]
TREE = {
    "nodes": [
        {"name": "root", "parent": None},
        *({"name": place, "parent": "root"} for place in NOUNS),
        *({"name": name, "parent": name.split("_")[0]} for name in DOMAINS),
    ],
    "domains": {name: name for name in DOMAINS},
}
ADAPTERS = {"from": "base", "arch": "transformer_lm_hier_adapter_tiny", "bottleneck-dim": 4, "lr": 0.01}


def write_texts(folder: Path) -> None:
    """Write ``text/DOMAIN.txt`` and ``unseen/DOMAIN.txt``, 400 lines each."""
    rng = random.Random(5)
    for name in [*DOMAINS, *UNSEEN]:
        place, kind = name.split("_")
        lines = [f"{rng.choice(VERBS[kind])} the {rng.choice(NOUNS[place])} {rng.randint(1, 999)}" for _ in range(400)]
        path = folder / ("unseen" if name in UNSEEN else "text") / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_lm_experiment(folder: Path, **changes: Any) -> Path:
    """Write texts, tree and the experiment file, and return the last; it works in ``work`` beside it."""
    write_texts(folder)
    (folder / "tree.json").write_text(json.dumps(TREE), encoding="utf-8")
    systems: dict[str, Any] = {"base": {"arch": "transformer_lm_tiny", "max-update": 30}}
    systems |= {
        "single": {**ADAPTERS, "tree": "manual", "adapters": "single"},
        "multi": {**ADAPTERS, "tree": "induced", "adapters": "multi"},
        "manual": {**ADAPTERS, "tree": "manual"},
        "induced": {**ADAPTERS, "tree": "induced"},
    }
    common = {"optimizer": "adam", "lr": 0.02, "tokens-per-sample": 16, "batch-size": 8, "cpu": True, "max-update": 6,
              "num-workers": 0}  # fmt: skip
    settings: dict[str, Any] = {
        "kind": "hierarchy",
        "work_dir": str(folder / "work"),
        "corpora": {"folder": str(folder / "text"), "unseen": str(folder / "unseen")},
        "split": {"valid": 40, "test": 40, "stretch": 10},
        "subwords": {"vocab_size": 60},
        "tree": {"manual": str(folder / "tree.json"), "induced": {"sequences": 60, "dimensions": 5}},
        "train": {"common": common, "systems": systems},
        "evaluate": {"sequences": 20, "every_path": ["manual"], "cpu": True},
    }
    return write_experiment(folder / "lm.yaml", settings, changes)
