"""Measure a run: the cost of its adapters, and its losses on each domain over different paths."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.domain_tree import DomainTree, Paths
from fairseq_ext.base.json_file import read_json
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.hierarchy.config import (
    ALL,
    BEST_PATH,
    CHOOSING_LOSS,
    FLOPS,
    LOSS,
    MEAN_PATH,
    NONE,
    OWN,
    PATHS_FILE,
    TREE,
    UNIFORM,
    WORD_LOSS,
    Hierarchy,
    Routing,
    chosen,
)
from fairseq_ext.experiments.language_models import DATA_DIR, UNSEEN_DATA_DIR, checkpoint_of
from fairseq_ext.experiments.metrics.records import Record
from fairseq_ext.experiments.scoring import LanguageModelScorer, Likelihood
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.text.line_split import text_path
from fairseq_ext.text.text_files import stream_lines

Routings = Sequence[tuple[Routing, Paths]]  # each with the paths of its adapters
_NO_TREE: Routings = [(NONE, ())]
_EMBEDDINGS = ("embed_tokens", "embed_positions", "output_projection", "wte", "wpe", "lm_head")


def measure_run(experiment: Hierarchy, run: Run) -> Iterator[Record]:
    """Measure a run: its cost, and its losses on the domains of its tree and on unseen domains."""
    checkpoint, evaluate = checkpoint_of(experiment, run), experiment.evaluate
    load = partial(
        LanguageModelScorer.load,
        checkpoint,
        tokens_per_sample=experiment.systems[run.system.name].tokens_per_sample,
        max_tokens=evaluate.max_tokens,
        cpu=evaluate.cpu,
    )
    data, unseen = experiment.work_dir / DATA_DIR, experiment.work_dir / UNSEEN_DATA_DIR
    model = _Model(experiment, run, load(data))
    for metric, value in costs_of(model.scorer.model, checkpoint).items():
        yield model.record(metric=metric, value=value)
    for domain in sorted(model.tree.domains) if model.tree else read_domain_names(data / DOMAINS_FILE):
        yield from model.losses(domain, [(OWN, [domain])] if model.tree else _NO_TREE)
    if experiment.corpora.unseen:
        model = _Model(experiment, run, load(unseen))
        for domain in read_domain_names(unseen / DOMAINS_FILE):
            yield from model.losses_unseen(domain)


@dataclass(frozen=True)
class _Model:
    """The model of a run, loaded for the domains of a data directory."""

    experiment: Hierarchy
    run: Run
    scorer: LanguageModelScorer

    @property
    def tree(self) -> DomainTree | None:
        return self.scorer.tree

    def record(self, **values: Any) -> Record:
        return Record(system=self.run.system.name, run=self.run.name, seed=self.run.seed, **values)

    def losses(self, domain: str, routings: Routings) -> Iterator[Record]:
        """Measure the losses on a test set over the given routings."""
        batches = self.scorer.batches(domain, "test")
        likelihoods = [(routing, self.scorer.score(batches, paths)) for routing, paths in routings]
        text = stream_lines(text_path(self.experiment.work_dir / "splits", domain, "test"))
        words = sum(len(line.split()) for line in text)
        return records_of_losses(partial(self.record, domain=domain), likelihoods, words)

    def losses_unseen(self, domain: str) -> Iterator[Record]:
        """Measure the losses on an unseen domain.

        For trees without clusters, also return the losses that its paths are chosen by.
        """
        best: Paths = ()
        name = self.run.system.name
        if clusters := self.experiment.clusters_of(name):
            path = self.experiment.paths_dir(clusters.name) / PATHS_FILE
            best = read_json(path, "choose the paths again")[domain]
        elif self.tree and self.experiment.systems[name].adapters == TREE:
            sequences, seed = self.experiment.evaluate.sequences, self.experiment.seed
            # No model was trained on the training set of an unseen domain.
            batches, count = self.scorer.drawn_batches(domain, "train", sequences, seed)
            losses = {leaf: self.scorer.score(batches, [leaf]).loss for leaf in self.tree.leaves}
            best = sorted(losses, key=lambda leaf: losses[leaf])
            for leaf in best:
                yield self.record(domain=domain, metric=CHOOSING_LOSS, value=losses[leaf], n=count, dims={"path": leaf})
        yield from self.losses(domain, routings_of(self.experiment, name, self.tree, best) if self.tree else _NO_TREE)


def routings_of(experiment: Hierarchy, name: str, tree: DomainTree, best: Paths) -> Routings:
    """Return the routings that use the same paths for all text of an unseen domain.

    ``best`` are the leaves chosen for the domain, best first, with votes if available.
    """
    routings: list[tuple[Routing, Paths]] = [(ALL, list(tree.leaves))]
    if experiment.has_every_path(name):
        routings += [({"path": leaf}, [leaf]) for leaf in tree.leaves]
    for count in experiment.evaluate.num_paths if best else ():
        if count <= len(tree.leaves):
            for weights in experiment.path_weights(experiment.systems[name].tree, count):
                leaves: Paths = list(best)[:count]
                if isinstance(best, Mapping) and weights != UNIFORM:
                    leaves = {leaf: best[leaf] for leaf in leaves}
                routings.append((chosen(count, weights), leaves))
    return routings


def records_of_losses(
    of: Callable[..., Record], likelihoods: Sequence[tuple[Routing, Likelihood]], words: int
) -> Iterator[Record]:
    """Convert the likelihoods of a test set by routing to records.

    Args:
        of: creates a record of the run and the test set.
        words: number of words in the test set.
    """
    for routing, by_token in likelihoods:
        for metric, likelihood in {LOSS: by_token, WORD_LOSS: Likelihood(by_token.nats, words)}.items():
            yield of(metric=metric, value=likelihood.loss, n=likelihood.tokens, dims=routing)
    by_path = [likelihood.loss for routing, likelihood in likelihoods if "path" in routing]
    if by_path:
        yield of(metric=LOSS, value=min(by_path), dims=BEST_PATH)
        yield of(metric=LOSS, value=statistics.fmean(by_path), dims=MEAN_PATH)


def costs_of(model: Any, checkpoint: Path) -> dict[str, float]:
    """Return the cost of the adapters of a model (the paper's Table 1, §2.4). ``checkpoint`` has the number of updates.

    Returns:
        ``base`` parameters and ``base_flops`` per token (2N, N without embeddings). For models with adapters also
        ``added`` parameters, ``active`` added parameters (on a path of mean length, with the shared norms),
        ``added_flops`` (4·L·H·b per adapter), ``updates``, and ``leaf_updates``: updates times the mean leaf's share
        of the text.
    """
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    base = {name: size for name, size in sizes.items() if not is_adapter_key(name)}
    dense = sum(size for name, size in base.items() if not any(part in name for part in _EMBEDDINGS))
    costs = {"base": sum(base.values()), "base_flops": 2 * dense}
    if not hasattr(model, "tree"):
        return costs
    tree, banks = model.tree, model.banks
    history = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint)).get("optimizer_history") or [{}]
    updates = int(history[-1].get("num_updates", 0))
    length, nodes, added = tree.mean_path_length, len(tree.names), sum(sizes.values()) - costs["base"]
    per_node = sum(getattr(bank, name)[0].numel() for bank in banks for name in bank.row_names)
    added_flops = 4 * len(banks) * banks[0].embed_dim * banks[0].bottleneck_dim * length
    return costs | {
        "bottleneck_dim": banks[0].bottleneck_dim,
        "num_adapters": nodes,
        "mean_path_length": length,
        "added": added,
        "active": round(added - (nodes - length) * per_node),
        "added_flops": added_flops,
        "updates": updates,
        "leaf_updates": round(updates / len(tree.leaves)),
        FLOPS: added_flops / costs["base_flops"],
    }
