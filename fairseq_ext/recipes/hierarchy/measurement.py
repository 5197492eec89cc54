"""What is measured: losses of every model on every domain over different paths, and the cost of adapters, as records.

A *routing* says over which adapters text is scored: those of the text's own domain (``own``), all paths of the tree
(``all``), one path (``path:LEAF``), all paths below an inner node (``below:NODE``), k paths chosen for the domain and
weighted by their votes (``chosen:K``) or evenly (``chosen:K:uniform``), or k paths that every block chooses for itself
by its first n tokens (``sequence:K:N``). A model without adapters has one routing, ``none``.

Losses are negative log-likelihoods in nats, per token with one end a line, per word, and per token after the first n
tokens of each block; by the last, choices made from these n tokens are compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.corpora.line_split import text_path
from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.domain_tree import DomainTree, Paths
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.inputs.path_chooser import CLUSTERS_FILE
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.hierarchy.config import SINGLE, TREE, Hierarchy
from fairseq_ext.recipes.hierarchy.induction import BY_VOTES, PATHS_FILE, UNIFORM, VOTES_FILE
from fairseq_ext.recipes.language_models import DATA_DIR, UNSEEN_DATA_DIR, checkpoint_of
from fairseq_ext.recipes.report import measure_step, measured, training_records

if TYPE_CHECKING:
    from fairseq_ext.recipes.perplexity import LanguageModelScorer, Weights

OWN, ALL, NONE = "own", "all", "none"  # routings
PATH, BELOW = "path:", "below:"
BEST_PATH, MEAN_PATH = "best path", "mean path"
TOKEN, WORD = "token", "word"
CHOOSING_LOSS, VOTES, FLOPS = "loss to choose by", "votes", "added_flops of base_flops"
_CHOOSING_SPLIT = "train"  # no model was trained on an unseen domain
_EMBEDDINGS = ("embed_tokens", "embed_positions", "output_projection")
_VERSION = 3

Sums = Mapping[int, tuple[float, int]]  # nats and tokens after the first n tokens of each block, by n
Of = Callable[..., Record]


def chosen(num_paths: int, weights: str = BY_VOTES) -> str:
    """The routing over so many paths, chosen for the domain and weighted by votes or uniformly."""
    return f"chosen:{num_paths}:{UNIFORM}" if weights == UNIFORM else f"chosen:{num_paths}"


def by_sequence(num_paths: int, num_tokens: int) -> str:
    """The routing over so many paths, chosen by every block from its first so many tokens (0: all)."""
    return f"sequence:{num_paths}:{num_tokens}"


def after(num_tokens: int) -> str:
    """The unit of a token after the first so many of each block."""
    return f"token after {num_tokens}"


def loss(routing: str, unit: str = TOKEN) -> str:
    """The metric of a loss over a routing, the mean over a unit: :data:`TOKEN`, :data:`WORD` or :func:`after`."""
    return f"nats per {unit}, {routing}"


def perplexity_steps(experiment: Hierarchy) -> list[Step]:
    """The steps that measure every run: ``perplexity/RUN``."""
    return [_step_of_run(experiment, run) for run in experiment.all_runs]


def all_records(experiment: Hierarchy) -> Records:
    """Everything that was measured so far."""
    votes = [record for name in experiment.induced_trees for record in votes_of(experiment, name)]
    return Records([*training_records(experiment), *measured(perplexity_steps(experiment)), *votes])


def votes_of(experiment: Hierarchy, tree: str) -> Iterator[Record]:
    """By unseen domain, the votes for each leaf of an induced tree that was chosen, best first; n is all votes."""
    paths, votes = (experiment.paths_dir(tree) / name for name in (PATHS_FILE, VOTES_FILE))
    if not paths.is_file() or not votes.is_file():
        return
    counts = read_json(votes, "choose the paths again")
    for domain, leaves in read_json(paths, "choose the paths again").items():
        of_domain = counts[domain]
        for leaf in leaves:
            metric = f"{VOTES}, {leaf}"
            yield Record(system=tree, domain=domain, metric=metric, value=of_domain[leaf], n=sum(of_domain.values()))


def _step_of_run(experiment: Hierarchy, run: Run) -> Step:
    evaluate, system, work_dir = experiment.evaluate, experiment.systems[run.system.name], experiment.work_dir
    options: dict[str, Any] = {
        "version": _VERSION,
        "adapters": system.adapters,
        "tokens_per_sample": system.tokens_per_sample,
        "num_paths": list(evaluate.num_paths),
        "choose_tokens": list(evaluate.choose_tokens),
        "every_path": _has_every_path(experiment, run),
        "sequences": evaluate.sequences,
        "seed": experiment.seed,
    }
    if evaluate.path_weights != (BY_VOTES,):  # earlier records do not have it
        options["path_weights"] = list(evaluate.path_weights)
    unseen = [work_dir / UNSEEN_DATA_DIR] if experiment.corpora.unseen else []
    clusters = clusters_of(experiment, run)
    choice = [clusters / CLUSTERS_FILE, *([_paths_file(experiment, run)] if unseen else [])] if clusters else []
    inputs = [checkpoint_of(experiment, run), work_dir / DATA_DIR, work_dir / "splits", *unseen, *choice]
    return measure_step(work_dir / "perplexity" / run.name, inputs, options, lambda: measure(experiment, run))


def clusters_of(experiment: Hierarchy, run: Run) -> Path | None:
    """The directory of the clusters by which text chooses paths of a run's tree; None if there are none."""
    system = experiment.systems[run.system.name]
    if system.tree is None or system.adapters != TREE or system.tree not in experiment.induced_trees:
        return None
    return experiment.tree_file(system.tree).parent


def _paths_file(experiment: Hierarchy, run: Run) -> Path:
    """The paths that unseen domains have chosen by the clusters of a run's tree."""
    return experiment.paths_dir(str(experiment.systems[run.system.name].tree)) / PATHS_FILE


def measure(experiment: Hierarchy, run: Run) -> Iterator[Record]:
    """Measure a run: its cost, and its losses on the domains of its tree and on unseen domains."""
    # Loads fairseq.
    from fairseq_ext.recipes.perplexity import LanguageModelScorer

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
        yield from model.losses(domain, {OWN: [domain]})
    if experiment.corpora.unseen:
        model = _Model(experiment, run, load(unseen))
        for domain in read_domain_names(unseen / DOMAINS_FILE):
            yield from model.losses_unseen(domain)


@dataclass(frozen=True)
class _Model:
    """A model of a run, loaded for the domains of a data directory."""

    experiment: Hierarchy
    run: Run
    scorer: LanguageModelScorer

    @property
    def tree(self) -> DomainTree | None:
        return self.scorer.tree

    def record(self, **values: Any) -> Record:
        return Record(system=self.run.system.name, run=self.run.name, seed=self.run.seed, **values)

    def losses(self, domain: str, routings: Mapping[str, Paths]) -> Iterator[Record]:
        """The losses of a test set, over given routings and those that its blocks choose."""
        weights: dict[str, Weights | None] = {NONE: None}
        if self.tree is not None:
            weights = {routing: self.scorer.over(paths) for routing, paths in routings.items()}
            weights |= self._weights_by_sequence()
        batches = self.scorer.batches(domain, "test")
        starts = sorted({0, *self.experiment.evaluate.choose_tokens})
        sums = {}
        for routing, each in weights.items():
            found = self.scorer.score(batches, each, starts)
            sums[routing] = {start: (found[start].nats, found[start].tokens) for start in starts}
        text = stream_lines(text_path(self.experiment.work_dir / "splits", domain, "test"))
        words = sum(len(line.split()) for line in text)
        return records_of_losses(self.record, domain, sums, words)

    def losses_unseen(self, domain: str) -> Iterator[Record]:
        """The losses of an unseen domain, and what a tree without clusters chooses its paths by."""
        best: Paths = ()
        if clusters_of(self.experiment, self.run):
            best = read_json(_paths_file(self.experiment, self.run), "choose the paths again")[domain]
        elif self.experiment.systems[self.run.system.name].adapters == TREE:
            losses, count = self._loss_by_leaf(domain)
            best = sorted(losses, key=lambda leaf: losses[leaf])
            for leaf in best:
                yield self.record(domain=domain, metric=f"{CHOOSING_LOSS}, {leaf}", value=losses[leaf], n=count)
        routings = routings_of(self.experiment, self.run, self.tree, best) if self.tree else {}
        yield from self.losses(domain, routings)

    def _loss_by_leaf(self, domain: str) -> tuple[dict[str, float], int]:
        """The loss of some of a domain's text over the path of each leaf, and how many blocks it has."""
        assert self.tree is not None
        sequences, seed = self.experiment.evaluate.sequences, self.experiment.seed
        batches, count = self.scorer.drawn_batches(domain, _CHOOSING_SPLIT, sequences, seed)
        losses = {}
        for leaf in self.tree.leaves:
            likelihood = self.scorer.score(batches, self.scorer.over([leaf]))[0]
            losses[leaf] = likelihood.nats / likelihood.tokens
        return losses, count

    def _weights_by_sequence(self) -> dict[str, Weights]:
        clusters, evaluate = clusters_of(self.experiment, self.run), self.experiment.evaluate
        if clusters is None:
            return {}
        from fairseq_ext.tasks.sequence_paths import SequencePaths, StatesOnce

        load = partial(
            SequencePaths.load,
            clusters,
            self.scorer.model,
            padding_idx=self.scorer.task.source_dictionary.pad(),
            states=StatesOnce(evaluate.choose_tokens),
        )
        return {
            by_sequence(count, start): load(num_paths=count, num_tokens=start)
            for start in evaluate.choose_tokens
            for count in evaluate.num_paths
        }


def routings_of(experiment: Hierarchy, run: Run, tree: DomainTree, best: Paths) -> dict[str, Paths]:
    """The routings of an unseen domain that are the same for all its text, each with the paths that it averages.

    ``best`` are the leaves chosen for the domain, best first, with their votes if they have any.
    """
    routings: dict[str, Paths] = {ALL: list(tree.leaves)}
    has_every_path = _has_every_path(experiment, run)
    if has_every_path:
        routings |= {f"{PATH}{leaf}": [leaf] for leaf in tree.leaves}
    if experiment.systems[run.system.name].adapters != TREE:
        return routings
    if has_every_path:
        routings |= {f"{BELOW}{node}": leaves for node, leaves in families_of(tree).items()}
    counts = [count for count in experiment.evaluate.num_paths if best and count <= len(tree.leaves)]
    tree_name = experiment.systems[run.system.name].tree
    return routings | {
        chosen(count, weights): _first(best, count, weights)
        for count in counts
        for weights in experiment.path_weights(tree_name, count)
    }


def families_of(tree: DomainTree) -> dict[str, list[str]]:
    """By inner node the leaves below it, of nodes that have several leaves but not all."""
    below = {
        name: [leaf for leaf in tree.leaves if row in tree.path(leaf)]
        for row, name in enumerate(tree.names)
        if name not in tree.leaves
    }
    return {name: leaves for name, leaves in below.items() if 1 < len(leaves) < len(tree.leaves)}


def _first(paths: Paths, count: int, weights: str) -> Paths:
    if isinstance(paths, Mapping) and weights != UNIFORM:
        return dict(list(paths.items())[:count])
    return list(paths)[:count]


def _has_every_path(experiment: Hierarchy, run: Run) -> bool:
    name = run.system.name
    return name in experiment.evaluate.every_path or experiment.systems[name].adapters == SINGLE


def records_of_losses(of: Of, domain: str, sums: Mapping[str, Sums], words: int) -> Iterator[Record]:
    """The losses of a test set of so many words, by routing."""
    for routing, found in sums.items():
        units = {TOKEN: found[0], WORD: (found[0][0], words)}
        units |= {after(start): sum_ for start, sum_ in found.items() if start}
        for unit, (nats, count) in units.items():
            if count:
                yield of(domain=domain, metric=loss(routing, unit), value=nats / count, n=count)
    sums_by_path = [found[0] for routing, found in sums.items() if routing.startswith(PATH)]
    if sums_by_path:
        by_path = [nats / tokens for nats, tokens in sums_by_path]
        yield of(domain=domain, metric=loss(BEST_PATH), value=min(by_path))
        yield of(domain=domain, metric=loss(MEAN_PATH), value=statistics.fmean(by_path))


def costs_of(model: Any, checkpoint: Path) -> dict[str, float]:
    """What the adapters of a model cost (the paper's Table 1, §2.4); its checkpoint knows the number of updates.

    Returns:
        ``base`` parameters and ``base_flops`` per token (2N, N without embeddings); of a model with adapters also
        ``added`` parameters, ``active`` ones of these (on a path of mean length, and the shared norms), ``added_flops``
        (4·L·H·b per adapter), ``updates``, and ``leaf_updates``: updates times the mean leaf's share of the text.
    """
    # Loads fairseq.
    from fairseq_ext.modules.freezing import is_adapter_key

    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    base = {name: size for name, size in sizes.items() if not is_adapter_key(name)}
    dense = sum(size for name, size in base.items() if not any(part in name for part in _EMBEDDINGS))
    costs = {"base": sum(base.values()), "base_flops": 2 * dense}
    if not hasattr(model, "tree"):
        return costs
    tree, banks, updates = model.tree, model.banks, _updates_of(checkpoint)
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


def _updates_of(checkpoint: Path) -> int:
    import fairseq  # noqa: F401  before the package's registrations
    from fairseq import checkpoint_utils

    from fairseq_ext import registration  # noqa: F401  the checkpoints' models

    history = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint)).get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))
