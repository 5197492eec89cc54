"""An experiment with language models that never ran: its file and the records that its steps would have left."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.domains.domain_tree import tree_from_json
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment, load_config
from fairseq_ext.experiments.hierarchy.evaluate import families_of
from fairseq_ext.experiments.hierarchy.routings import (
    ALL,
    NONE,
    OWN,
    chosen_routing,
    family_routing,
    path_routing,
    sequence_routing,
)

DOMAINS = ["art", "biology", "chess", "dance", "opera"]
UNSEEN = ["film", "go"]
MANUAL = {
    "nodes": [
        {"name": "root", "parent": None},
        {"name": "stage", "parent": "root"},
        {"name": "dance", "parent": "stage"},
        {"name": "opera", "parent": "stage"},
        {"name": "biology", "parent": "root"},
    ],
    "domains": {"dance": "dance", "opera": "opera", "biology": "biology"},
}
INDUCED = {
    "nodes": [
        {"name": "c0", "parent": "n4"},
        {"name": "c1", "parent": "n4"},
        {"name": "c2", "parent": "n5"},
        {"name": "c3", "parent": "n6"},
        {"name": "n4", "parent": "n5"},
        {"name": "n5", "parent": "n6"},
        {"name": "n6", "parent": None},
    ],
    "domains": {"dance": "c0", "opera": "c0", "art": "c1", "chess": "c2", "biology": "c3"},
}
CLUSTERS = {
    "domains": DOMAINS,
    "clusters": [{"number": 3, "leaf": "c0"}, {"number": 0, "leaf": "c1"}, {"number": 1, "leaf": "c2"},
                 {"number": 4, "leaf": "c3"}],
    "empty": [2],
    "counts": [[80, 0, 5, 15, 0], [0, 0, 0, 0, 100], [0, 99, 1, 0, 0], [10, 0, 0, 90, 0], [0, 0, 3, 97, 0]],
}  # fmt: skip
LOSSES = {"film": {"dance": 3.5, "opera": 3.4, "biology": 3.7}, "go": {"dance": 3.5, "opera": 3.6, "biology": 3.4}}
FACTORS = {"base": 1.0, "single": 0.8, "multi": 0.75, "tree": 0.7}
TOKENS, WORDS, AFTER = 1000, 800, 750


def experiment_file(folder: Path, **changes: Any) -> dict[str, Any]:
    """The contents of an experiment file with a tree of either kind."""
    adapters = {"from": "base", "arch": "transformer_lm_hier_adapter_small"}
    systems: dict[str, Any] = {"base": {"arch": "transformer_lm_small"}}
    for tree in ("manual", "induced"):
        systems[f"single-{tree}"] = {**adapters, "tree": tree, "adapters": "single"}
        systems[f"multi-{tree}"] = {**adapters, "tree": tree, "adapters": "multi"}
        systems[tree] = {**adapters, "tree": tree, "seeds": [1, 2] if tree == "induced" else []}
    return {
        "kind": "hierarchy",
        "work_dir": str(folder / "runs"),
        "corpora": {"folder": str(folder / "text"), "unseen": str(folder / "more")},
        "tree": {"manual": str(folder / "manual.json"), "induced": {"sequences": 100}},
        "train": {"common": {"tokens-per-sample": 64}, "systems": systems},
        "evaluate": {"choose_tokens": [0, 16], "every_path": ["manual"], "sequences": 100, **changes},
    }


def make_experiment(folder: Path, **changes: Any) -> HierarchyExperiment:
    """Write the file and all records below a folder."""
    config = make_file(folder, **changes)
    write(folder / "manual.json", MANUAL)
    write(config.work_dir / "trees" / "induced" / "tree.json", INDUCED)
    names = ["base", *(f"{kind}-{tree}" for tree in ("manual", "induced") for kind in ("single", "multi"))]
    for run in [*names, "manual", "induced@1", "induced@2"]:
        write(config.work_dir / "perplexity" / run / "perplexity.json", perplexity_of(run))
    induced = config.work_dir / "paths" / "induced"
    write(induced / "paths.json", {"film": ["c0", "c2"], "go": ["c2", "c3"]})
    write(induced / "votes.json", {"film": {"c0": 60, "c1": 0, "c2": 40, "c3": 0}, "go": {"c0": 0, "c2": 90, "c3": 10}})
    write(config.work_dir / "trees/induced/clusters.json", CLUSTERS)
    return config


def make_file(folder: Path, **changes: Any) -> HierarchyExperiment:
    """Write only the file."""
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment_file(folder, **changes)), encoding="utf-8")
    return load_config(path)


def perplexity_of(run: str) -> dict[str, Any]:
    """Perplexities that are a system's factor times a domain's own; unseen domains gain half as much."""
    kind, _, _ = run.partition("@")
    adapters = None if kind == "base" else kind.split("-")[0] if "-" in kind else "tree"
    factor = FACTORS[adapters or "base"] * (1.02 if run.endswith("@2") else 1)
    tree = tree_from_json(json.dumps(MANUAL if "manual" in kind else INDUCED), "made up")
    own = sorted(tree.domains) if adapters else DOMAINS
    leaves = {None: [], "single": own, "multi": ["all"], "tree": list(tree.leaves)}[adapters]
    families = families_of(tree) if kind == "manual" else {}
    nats = {}
    for number, domain in enumerate([*own, *UNSEEN]):
        base, gain = 40.0 + 3 * number, factor if domain in own else (1 + factor) / 2
        routings = {OWN if adapters else NONE: gain} if domain in own else {NONE: 1.0} if not adapters else {ALL: gain}
        if domain in UNSEEN and adapters in ("single", "tree") and (adapters == "single" or kind == "manual"):
            routings |= {path_routing(leaf): gain + 0.05 * place for place, leaf in enumerate(leaves)}
            routings |= {family_routing(node): gain + 0.01 for node in families}
        if adapters == "tree" and domain in UNSEEN:
            routings |= {chosen_routing(1): gain + 0.04, chosen_routing(2): gain - 0.04}
        if kind == "induced":
            routings |= {sequence_routing(k, n): gain - 0.01 * k + 0.001 * n for k in (1, 2) for n in (0, 16)}
        nats[domain] = {name: TOKENS * math.log(base * value) for name, value in routings.items()}
    return {
        "adapters": adapters,
        "leaves": leaves,
        "families": families,
        "tokens_per_sample": 64,
        "domains": own,
        "unseen": UNSEEN,
        "sets": {
            domain: {"tokens": TOKENS, "words": WORDS, "tokens_after": {"16": AFTER}} for domain in [*own, *UNSEEN]
        },
        "nats": nats,
        "nats_after": {
            domain: {name: {"16": AFTER / TOKENS * value} for name, value in found.items()}
            for domain, found in nats.items()
        },
        "choices": choices_of(kind),
        "cost": cost_of(kind),
    }


def choices_of(system: str) -> dict[str, Any]:
    if system != "manual":
        return {"ranking": {}, "losses": {}, "sequences": {}}
    ranking = {domain: sorted(losses, key=losses.__getitem__) for domain, losses in LOSSES.items()}
    return {"ranking": ranking, "losses": LOSSES, "sequences": {"film": 100, "go": 60}}


def cost_of(system: str) -> dict[str, Any]:
    cost: dict[str, Any] = {"base": 3_000_000, "base_flops": 4_000_000}
    if system == "base":
        return cost
    number = len(system)
    return cost | {
        "bottleneck_dim": 32 + number,
        "num_adapters": number,
        "mean_path_length": 2.5,
        "added": 100_000 * number,
        "active": 50_000 * number,
        "updates": 600,
        "leaf_updates": 120,
        "added_flops": 400_000.0,
    }


def write(path: Path, record: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record), encoding="utf-8")
