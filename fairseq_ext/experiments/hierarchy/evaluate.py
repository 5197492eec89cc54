"""The steps that measure the language models of an experiment: ``perplexity/RUN/perplexity.json``.

A record has by domain and routing (:mod:`fairseq_ext.experiments.hierarchy.routings`) the negative log-likelihood of
the test set in nats, ``nats``, and how many tokens and words that is over, ``sets``. ``nats_after`` and
``tokens_after`` have the same for what follows the first n tokens of each block, which is what a choice of paths from
these n tokens is fairly judged by. ``leaves`` and ``families`` are those that routings speak of; ``choices`` is by
what a tree without clusters chose paths for the unseen domains; ``cost`` is the entry of the paper's Table 1.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.domains.domain_tree import DomainTree, Paths
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.domains.path_chooser import CLUSTERS_FILE
from fairseq_ext.engine.steps import Step, atomic_write
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment
from fairseq_ext.experiments.hierarchy.routings import (
    ALL,
    NONE,
    OWN,
    chosen_routing,
    family_routing,
    path_routing,
    sequence_routing,
)
from fairseq_ext.induction.options import PATHS_FILE
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.language_models import DATA_DIR, UNSEEN_DATA_DIR, checkpoint_of
from fairseq_ext.text.line_split import text_path

PERPLEXITY_FILE = "perplexity.json"
CHOOSING_SPLIT = "train"  # of an unseen domain, nobody was trained on it
_PARTS = "domains"
_VERSION = 2


@dataclass(frozen=True)
class Measurement:
    """What is measured of one run.

    Attributes:
        adapters: ``tree``, ``single``, ``multi``, or none.
        tokens_per_sample: length of the blocks.
        num_paths: how many paths unseen domains and sequences choose.
        choose_tokens: by how many first tokens sequences choose, 0 for all; what follows these is also scored apart.
        every_path: whether each path is measured on unseen domains.
        sequences: by which a tree without clusters chooses paths.
        seed: draws them.
    """

    adapters: str | None
    tokens_per_sample: int
    num_paths: tuple[int, ...]
    choose_tokens: tuple[int, ...]
    every_path: bool
    sequences: int
    seed: int


@dataclass(frozen=True)
class Places:
    """Where a measurement finds what it needs.

    Attributes:
        checkpoint: the model.
        data: directory of the training domains.
        unseen: of the unseen domains; None for none.
        splits: folder of the raw text, whose words are counted.
        clusters: directory of the induced tree, if the model has one.
        paths: file of the paths that were chosen by it.
    """

    checkpoint: Path
    data: Path
    unseen: Path | None
    splits: Path
    clusters: Path | None = None
    paths: Path | None = None


def perplexity_step(experiment: HierarchyExperiment, run: Run) -> Step:
    """The step that measures a run."""
    model, evaluation = experiment.systems[run.system.name], experiment.evaluate
    places = _places(experiment, run)
    what = Measurement(
        model.adapters,
        model.tokens_per_sample,
        tuple(evaluation.num_paths),
        tuple(evaluation.choose_tokens),
        run.system.name in evaluation.every_path or model.adapters == "single",
        evaluation.sequences,
        experiment.seed,
    )
    clusters = [places.clusters / CLUSTERS_FILE] if places.clusters else []
    given = [places.checkpoint, places.data, places.unseen, places.splits, *clusters, places.paths]

    def build(folder: Path) -> None:
        measure(folder, places, what, max_tokens=evaluation.max_tokens, cpu=evaluation.cpu)

    return Step(
        experiment.work_dir / "perplexity" / run.name,
        [path for path in given if path is not None],
        {"version": _VERSION, **dataclasses.asdict(what)},
        build,
        resumable=True,
    )


def _places(experiment: HierarchyExperiment, run: Run) -> Places:
    work_dir, tree = experiment.work_dir, experiment.tree_of(run.system.name)
    unseen = work_dir / UNSEEN_DATA_DIR if experiment.corpora.unseen else None
    places = Places(checkpoint_of(experiment, run), work_dir / DATA_DIR, unseen, work_dir / "splits")
    if tree is None or not tree.is_induced or experiment.systems[run.system.name].adapters != "tree":
        return places
    paths = work_dir / "paths" / tree.name / PATHS_FILE if unseen else None
    return dataclasses.replace(places, clusters=tree.path.parent, paths=paths)


def measure(folder: Path, places: Places, what: Measurement, *, max_tokens: int = 4096, cpu: bool = False) -> None:
    """Write ``perplexity.json``; domains that an interrupted run has measured are taken over."""
    # Loads fairseq.
    from fairseq_ext.experiments.hierarchy.adapter_costs import costs_of
    from fairseq_ext.metrics.perplexity import LanguageModelScorer

    def load(data: Path) -> LanguageModelScorer:
        return LanguageModelScorer.load(
            places.checkpoint, data, tokens_per_sample=what.tokens_per_sample, max_tokens=max_tokens, cpu=cpu
        )

    scorer = load(places.data)
    tree = scorer.tree
    own = sorted(tree.domains) if tree else read_domain_names(places.data / DOMAINS_FILE)
    record: dict[str, Any] = {
        "adapters": what.adapters,
        "leaves": list(tree.leaves) if tree else [],
        "families": families_of(tree) if tree and what.every_path and what.adapters == "tree" else {},
        "tokens_per_sample": what.tokens_per_sample,
        "domains": own,
        "unseen": read_domain_names(places.unseen / DOMAINS_FILE) if places.unseen else [],
        "choices": {"ranking": {}, "losses": {}, "sequences": {}},
        "cost": costs_of(scorer.model, places.checkpoint),
    }
    parts = {name: _domain_part(folder, name, scorer, places, what, is_unseen=False) for name in own}
    if places.unseen:
        scorer = load(places.unseen)
        parts |= {name: _domain_part(folder, name, scorer, places, what, is_unseen=True) for name in record["unseen"]}
    for key in ("sets", "nats", "nats_after"):
        record[key] = {name: part[key] for name, part in parts.items()}
    for name, part in parts.items():
        for key, value in part["choices"].items():
            record["choices"][key][name] = value
    (folder / PERPLEXITY_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(folder / _PARTS)


def families_of(tree: DomainTree) -> dict[str, list[str]]:
    """The inner nodes but for the root, each with the leaves below it, of which there are several but not all."""
    below = {
        name: [leaf for leaf in tree.leaves if row in tree.path(leaf)]
        for row, name in enumerate(tree.names)
        if name not in tree.leaves
    }
    return {name: leaves for name, leaves in below.items() if 1 < len(leaves) < len(tree.leaves)}


def paths_of_routings(
    what: Measurement, tree: DomainTree, domain: str, chosen: Paths, is_unseen: bool
) -> dict[str, Paths]:
    """The routings of a domain that are the same for all its text: name, and where the paths start.

    Args:
        what: what is measured.
        tree: the model's.
        domain: of the text.
        chosen: leaves for this domain, best first, with their votes where these chose them; none if it is no matter of
            choice.
        is_unseen: whether the tree does not have it.
    """
    if not is_unseen:
        return {OWN: [domain]}
    routings: dict[str, Paths] = {ALL: list(tree.leaves)}
    if what.every_path:
        routings |= {path_routing(leaf): [leaf] for leaf in tree.leaves}
    if what.adapters == "tree":
        if what.every_path:
            routings |= {family_routing(node): leaves for node, leaves in families_of(tree).items()}
        routings |= {chosen_routing(k): _first(chosen, k) for k in what.num_paths if chosen and k <= len(tree.leaves)}
    return routings


def _first(paths: Paths, count: int) -> Paths:
    """The best of them; fewer if there are no more."""
    return dict(list(paths.items())[:count]) if isinstance(paths, Mapping) else list(paths[:count])


def _domain_part(
    folder: Path, name: str, scorer: Any, places: Places, what: Measurement, *, is_unseen: bool
) -> Mapping[str, Any]:
    """One domain's part of the record, kept in a file of its own until all are there."""
    path = folder / _PARTS / f"{name}.json"
    if not path.is_file():
        part = _measure_domain(name, scorer, places, what, is_unseen)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(part), encoding="utf-8")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _measure_domain(name: str, scorer: Any, places: Places, what: Measurement, is_unseen: bool) -> dict[str, Any]:
    choices: dict[str, Any] = {}
    chosen: Paths = ()
    if is_unseen and what.adapters == "tree":
        if places.paths:
            chosen = json.loads(places.paths.read_text(encoding="utf-8"))[name]
        else:
            choices = _rank_leaves(name, scorer, what)
            chosen = choices["ranking"]
    batches = scorer.batches(name, "test")
    after = sorted({0, *what.choose_tokens})
    nats: dict[str, float] = {}
    nats_after: dict[str, dict[str, float]] = {}
    tokens: dict[int, int] = {}
    for routing, weights in _weights_of(name, scorer, places, what, chosen, is_unseen).items():
        found = scorer.score(batches, weights, after)
        nats[routing] = found[0].nats
        nats_after[routing] = {str(start): found[start].nats for start in after if start}
        tokens = {start: likelihood.tokens for start, likelihood in found.items()}
    return {
        "sets": {
            "tokens": tokens[0],
            "words": _count_words(text_path(places.splits, name, "test")),
            "tokens_after": {str(start): count for start, count in tokens.items() if start},
        },
        "nats": nats,
        "nats_after": nats_after,
        "choices": choices,
    }


def _weights_of(
    name: str, scorer: Any, places: Places, what: Measurement, chosen: Paths, is_unseen: bool
) -> dict[str, Any]:
    """By routing what gives a batch its weights; None for a model without adapters."""
    if scorer.tree is None:
        return {NONE: None}
    fixed = paths_of_routings(what, scorer.tree, name, chosen, is_unseen)
    routings = {routing: scorer.over(names) for routing, names in fixed.items()}
    if places.clusters is None:
        return routings
    from fairseq_ext.tasks.sequence_paths import SequencePaths, StatesOnce

    states = StatesOnce(what.choose_tokens)
    for start in what.choose_tokens:
        for k in what.num_paths:
            routings[sequence_routing(k, start)] = SequencePaths.load(
                places.clusters,
                scorer.model,
                num_paths=k,
                num_tokens=start,
                padding_idx=scorer.task.source_dictionary.pad(),
                states=states,
            )
    return routings


def _rank_leaves(name: str, scorer: Any, what: Measurement) -> dict[str, Any]:
    """Order the leaves by the perplexity of some of the domain's text over each alone."""
    batches, count = scorer.drawn_batches(name, CHOOSING_SPLIT, what.sequences, what.seed)
    losses = {}
    for leaf in scorer.tree.leaves:
        likelihood = scorer.score(batches, scorer.over([leaf]))[0]
        losses[leaf] = likelihood.nats / likelihood.tokens
    return {"ranking": sorted(losses, key=lambda leaf: losses[leaf]), "losses": losses, "sequences": count}


def _count_words(path: Path) -> int:
    with path.open(encoding="utf-8") as lines:
        return sum(len(line.split()) for line in lines)
