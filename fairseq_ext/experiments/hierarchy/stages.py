"""Stages of the hierarchy recipe: from text by domain to adapters on trees and their report.

``trees/NAME`` contains an induced tree and its clusters; ``paths/NAME`` contains the leaves that these clusters choose
for unseen domains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.base.domain_tree import read_tree
from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.path_chooser import CLUSTERS_FILE
from fairseq_ext.base.stages import Stage
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.hierarchy.config import (
    PATHS_FILE,
    RECORD_FILE,
    VOTES,
    VOTES_FILE,
    Hierarchy,
    Induction,
    PathChoice,
)
from fairseq_ext.experiments.hierarchy.induce_tree import write_paths, write_tree
from fairseq_ext.experiments.hierarchy.report import page
from fairseq_ext.experiments.language_models import DATA_DIR, UNSEEN_DATA_DIR, LanguageModelRecipe, checkpoint_of
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.tune import steps_of_runs

_INDUCTION_VERSION, _CHOICE_VERSION, _MEASUREMENT_VERSION = 1, 2, 5


class HierarchyRecipe(LanguageModelRecipe[Hierarchy]):
    """Language models with adapters on domain trees."""

    experiment_type = Hierarchy
    page_version = 9

    def training_stages(self) -> list[Stage]:
        """Return a stage for each system, and ``tree`` before the systems that need an induced tree."""
        stages = super().training_stages()
        late = [stage for stage in stages if self.experiment.needs_induced_tree(stage.name)]
        early = [stage for stage in stages if stage not in late]
        return [*early, Stage("tree", self.induce_trees), *late]

    def train(self, name: str) -> list[Step]:
        """Return the steps that train a system, with or without adapters."""
        config, system = self.experiment, self.experiment.systems[name]
        if system.tree is None:
            return super().train(name)
        file, domains = config.tree_file(system.tree), {}
        # Induced trees contain all domains, so training uses all of them by default.
        if system.tree not in config.induced_trees and option_of(system.options, "train-domains") is None:
            domains = {"train-domains": ",".join(sorted(read_tree(file).domains))}
        train = partial(self.train_run, options=domains, files={"tree": file})
        return steps_of_runs(config, config.runs[name], train)

    def induce_trees(self) -> list[Step]:
        """Return the steps that induce trees."""
        config, data = self.experiment, self.experiment.work_dir / DATA_DIR
        induce = partial(tree_step, data=data, cpu=config.evaluate.cpu)
        return [
            induce(config.tree_dir(name), config.encoder_of(name), options=config.induction_of(name))
            for name in config.induced_trees
        ]

    def choose_paths(self) -> list[Step]:
        """Return the steps that choose paths of induced trees for the unseen domains."""
        config, evaluate = self.experiment, self.experiment.evaluate
        choice = PathChoice(num_paths=max(evaluate.num_paths), sequences=evaluate.sequences, seed=config.seed)
        choose = partial(paths_step, data=config.work_dir / UNSEEN_DATA_DIR, options=choice, cpu=evaluate.cpu)
        return [
            choose(config.paths_dir(name), config.encoder_of(name), config.tree_dir(name))
            for name in (config.induced_trees if config.corpora.unseen else ())
        ]

    def measuring_stages(self) -> list[Stage]:
        """Return the stages that choose paths and measure losses."""
        return [Stage("paths", self.choose_paths), *super().measuring_stages()]

    def measure(self) -> list[Step]:
        """Return the steps that measure all runs: ``perplexity/RUN``."""
        return [self._measure_run(run) for run in self.experiment.all_runs]

    def _measure_run(self, run: Run) -> Step:
        config, name, evaluate = self.experiment, run.system.name, self.experiment.evaluate
        work_dir, system = config.work_dir, config.systems[name]

        def measure() -> Iterator[Record]:
            # Loads fairseq.
            from fairseq_ext.experiments.hierarchy.measure import measure_run

            return measure_run(config, run)

        options: dict[str, Any] = {
            "version": _MEASUREMENT_VERSION,
            "adapters": system.adapters,
            "tokens_per_sample": system.tokens_per_sample,
            "num_paths": list(evaluate.num_paths),
            "path_weights": list(evaluate.path_weights),
            "every_path": config.has_every_path(name),
            "sequences": evaluate.sequences,
            "seed": config.seed,
        }
        clusters, unseen = config.clusters_of(name), bool(config.corpora.unseen)
        inputs = [checkpoint_of(config, run), work_dir / DATA_DIR, work_dir / "splits"]
        inputs += [work_dir / UNSEEN_DATA_DIR] if unseen else []
        inputs += [clusters / CLUSTERS_FILE] if clusters else []
        inputs += [config.paths_dir(clusters.name) / PATHS_FILE] if clusters and unseen else []
        return measure_step(work_dir / "perplexity" / run.name, inputs, options, measure)

    def other_records(self) -> list[Record]:
        """Return the votes for the chosen leaves of induced trees, by unseen domain, best first; n is the total."""
        records = []
        for tree in self.experiment.induced_trees:
            files = [self.experiment.paths_dir(tree) / name for name in (PATHS_FILE, VOTES_FILE)]
            if all(path.is_file() for path in files):
                paths, votes = (read_json(path, "choose the paths again") for path in files)
                for domain, leaves in paths.items():
                    of = partial(Record, system=tree, domain=domain, metric=VOTES, n=sum(votes[domain].values()))
                    records += [of(value=votes[domain][leaf], dims={"path": leaf}) for leaf in leaves]
        return records

    def page_files(self) -> Sequence[Path]:
        """Return the files of trees, clusters and chosen paths."""
        files: list[Path] = []
        for name in self.experiment.tree:
            tree, paths = self.experiment.tree_file(name), self.experiment.paths_dir(name)
            files += [tree, tree.parent / RECORD_FILE, paths / PATHS_FILE, paths / VOTES_FILE]
        return files

    def page(self, records: Records) -> Page:
        """Make the page of tables and figures of Chronopoulou et al. (2022)."""
        return page(self.experiment, records)


RECIPE = HierarchyRecipe


def tree_step(output: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> Step:
    """Return the step that induces a tree from a language model's states of the domains in a data directory."""
    build = partial(write_tree, checkpoint=checkpoint, data=data, options=options, cpu=cpu)
    return Step(output, [checkpoint, data], {"version": _INDUCTION_VERSION, **options.model_dump()}, build)


def paths_step(
    output: Path, checkpoint: Path, tree: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> Step:
    """Return the step that chooses paths of an induced tree for the domains of a data directory.

    The checkpoint is the language model that the tree was induced with, or a model adapted from it.
    """
    build = partial(write_paths, checkpoint=checkpoint, tree=tree, data=data, options=options, cpu=cpu)
    return Step(output, [checkpoint, tree, data], {"version": _CHOICE_VERSION, **options.model_dump()}, build)
