"""What the files of all experiments with language models say: text by domain, how it is cut, and systems to train.

Each kind has more than that, and an experiment of its own: :mod:`fairseq_ext.experiments.hierarchy.config` and
:mod:`fairseq_ext.experiments.topics.config`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fairseq_ext.experiments.language_models.systems import LanguageModel
from fairseq_ext.inputs.models import read_model
from fairseq_ext.inputs.sections import as_mapping, check_keys, check_seed, read_section
from fairseq_ext.recipes.config import Run, System, expand, fitting_run, read_systems
from fairseq_ext.recipes.language_models import Corpora, Subwords
from fairseq_ext.text.line_split import LanguageModelSplit


@dataclass(frozen=True, kw_only=True)
class LanguageModelExperiment:
    """What experiments with language models have in common.

    Attributes:
        path: the experiment file.
        work_dir: all that is made lies below it.
        corpora: where the text comes from.
        seed: of the held-out draw, the subwords and the training.
        split: what is held out.
        subwords: how text is cut into pieces.
        systems: by name (``train`` in the file), none before the one that it starts from.
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    corpora: Corpora
    seed: int = 1
    split: LanguageModelSplit = LanguageModelSplit()
    subwords: Subwords = Subwords()
    systems: Mapping[str, LanguageModel] = field(default_factory=dict, metadata={"in_file": False})

    @cached_property
    def runs(self) -> dict[str, list[Run]]:
        """The runs of each system, one a seed."""
        return {name: expand(model.system, self.seed, ()) for name, model in self.systems.items()}

    @property
    def all_runs(self) -> list[Run]:
        """The runs of all systems, in order."""
        return [run for runs in self.runs.values() for run in runs]

    @property
    def trained_systems(self) -> dict[str, System]:
        """The systems that are trained here, by name."""
        return {name: model.system for name, model in self.systems.items() if model.checkpoint is None}

    def start_of(self, run: Run) -> Run | None:
        """The run that a run starts from, if any; see :func:`fairseq_ext.recipes.config.fitting_run`."""
        if run.system.start is None:
            return None
        return fitting_run(run, self.runs[run.system.start], f"{self.path}: train: systems")


_Experiment = TypeVar("_Experiment", bound=LanguageModelExperiment)


def read_shared(
    kind: type[_Experiment],
    content: Mapping[str, Any],
    path: Path,
    read_system: Callable[[System, str], LanguageModel],
    others: Sequence[str] = (),
) -> _Experiment:
    """Read and check what all kinds have.

    Args:
        kind: the experiment to make; what only this kind has is left at its default.
        content: of the file, less what only this kind has.
        path: of the file.
        read_system: what a system is to this kind; takes where it stands, for messages.
        others: keys that a file of this kind may have besides.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw, given = dict(content), dict[str, Any](path=path)
    check_keys(kind, raw, str(path), ("train", *others))
    sections: dict[str, Any] = {"corpora": Corpora, "split": LanguageModelSplit, "subwords": Subwords}
    for key in sections.keys() & raw.keys():
        given[key] = read_model(sections[key], raw.pop(key), f"{path}: {key}", {})
    where = f"{path}: train"
    systems = read_systems(as_mapping(raw.pop("train", {}), where), where)
    given["systems"] = {name: read_system(each, f"{where}: systems: {name}") for name, each in systems.items()}
    experiment: _Experiment = read_section(kind, raw, str(path), given=given, others=("train", *others))
    _check(experiment)
    return experiment


def _check(experiment: LanguageModelExperiment) -> None:
    """Check what types alone cannot say."""
    check_seed(experiment.seed, str(experiment.path))
    for run in experiment.all_runs:
        experiment.start_of(run)
