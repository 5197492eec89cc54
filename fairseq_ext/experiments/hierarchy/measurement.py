"""Steps that measure the systems of the hierarchy recipe, and their records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.path_chooser import CLUSTERS_FILE
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.hierarchy.config import PATHS_FILE, VOTES_FILE, Hierarchy
from fairseq_ext.experiments.hierarchy.metric_names import VOTES
from fairseq_ext.experiments.language_models import DATA_DIR, UNSEEN_DATA_DIR, checkpoint_of
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.report import measure_step, measured, training_records

_VERSION = 4


def perplexity_steps(experiment: Hierarchy) -> list[Step]:
    """Return the steps that measure all runs: ``perplexity/RUN``."""
    return [_step_of_run(experiment, run) for run in experiment.all_runs]


def all_records(experiment: Hierarchy) -> Records:
    """Return all records measured so far."""
    votes = [record for name in experiment.induced_trees for record in votes_of(experiment, name)]
    return Records([*training_records(experiment), *measured(perplexity_steps(experiment)), *votes])


def votes_of(experiment: Hierarchy, tree: str) -> Iterator[Record]:
    """Return the votes for the chosen leaves of an induced tree, by unseen domain, best first; n is the total."""
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
    def measure() -> Iterator[Record]:
        # Loads fairseq.
        from fairseq_ext.experiments.hierarchy.measure import measure_run

        return measure_run(experiment, run)

    name, evaluate, work_dir = run.system.name, experiment.evaluate, experiment.work_dir
    system = experiment.systems[name]
    options: dict[str, Any] = {
        "version": _VERSION,
        "adapters": system.adapters,
        "tokens_per_sample": system.tokens_per_sample,
        "num_paths": list(evaluate.num_paths),
        "path_weights": list(evaluate.path_weights),
        "every_path": experiment.has_every_path(name),
        "sequences": evaluate.sequences,
        "seed": experiment.seed,
    }
    clusters, unseen = experiment.clusters_of(name), bool(experiment.corpora.unseen)
    inputs = [checkpoint_of(experiment, run), work_dir / DATA_DIR, work_dir / "splits"]
    inputs += [work_dir / UNSEEN_DATA_DIR] if unseen else []
    inputs += [clusters / CLUSTERS_FILE] if clusters else []
    inputs += [experiment.paths_dir(clusters.name) / PATHS_FILE] if clusters and unseen else []
    return measure_step(work_dir / "perplexity" / run.name, inputs, options, measure)
