"""Which translations there are: what is scored as one run of an output, and its file for every test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.evaluation.test_sets import TestSets, ood_name, read_lines_like
from fairseq_ext.experiment.config import ExperimentConfig
from fairseq_ext.experiment.runs import OutputRun, output_runs_of, outputs_of
from fairseq_ext.pipeline.out_of_domain import out_of_domain_dir
from fairseq_ext.pipeline.translation import translation_dir


@dataclass(frozen=True)
class ScoredRun:
    """What gets one score a column: an output run; of a system trained per domain, all of them together.

    Attributes:
        name: ``gad``, or ``gad@1`` of several; ``ft`` for ``ft@IT``, ``ft@LAW`` …
        parts: the output runs.
    """

    name: str
    parts: tuple[OutputRun, ...]

    def folders(self, config: ExperimentConfig) -> list[Path]:
        """The folders of translations that have been made."""
        return [path for part in self.parts for path in _folders(config, part) if path.is_dir()]

    def missing(self, config: ExperimentConfig) -> list[str]:
        """The folders that have not been made, as ``translations/RUN`` and ``ood/RUN``."""
        folders = [path for part in self.parts for path in _folders(config, part)]
        return [f"{path.parent.name}/{path.name}" for path in folders if not path.is_dir()]

    def files(self, config: ExperimentConfig, tests: TestSets) -> dict[str, Path]:
        """The translations by test set, as far as they have been made."""
        files: dict[str, Path] = {}
        for part in self.parts:
            translated, ood = translation_dir(config, part.name), out_of_domain_dir(config, part.name)
            domains = [part.run.domain] if part.run.domain else tests.domains
            files |= {name: translated / f"{name}.{config.target_lang}" for name in domains if translated.is_dir()}
            if part.translates_any_text and ood.is_dir():
                files |= {ood_name(name): ood / f"{name}.{config.target_lang}" for name in tests.ood}
        return files


def _folders(config: ExperimentConfig, run: OutputRun) -> list[Path]:
    has_ood = config.evaluate.ood and run.translates_any_text
    return [translation_dir(config, run.name), *([out_of_domain_dir(config, run.name)] if has_ood else [])]


def find_runs(config: ExperimentConfig) -> dict[str, list[ScoredRun]]:
    """The runs of every output, whether they have been translated or not.

    Raises:
        InputError: if the experiment file's systems or outputs cannot be used.
    """
    found = {}
    for output in outputs_of(config):
        runs = output_runs_of(config, output)
        if any(run.run.domain for run in runs):
            found[output] = [ScoredRun(output, tuple(runs))]
        else:
            found[output] = [ScoredRun(run.name, (run,)) for run in runs]
    return found


def read_translations(files: Mapping[str, Path], tests: TestSets) -> dict[str, list[str]]:
    """The lines of a run's translations by test set.

    Raises:
        InputError: naming a file that has another number of lines than its references.
    """
    return {
        name: read_lines_like(path, tests.references[name], tests.reference_files[name]) for name, path in files.items()
    }
