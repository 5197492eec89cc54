"""Which translations there are: what is scored as one run of an output, and its file for every test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines_like
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.extra_sets import column_of, sets_for, translations_dir
from fairseq_ext.experiments.translation.outputs import OutputRun
from fairseq_ext.experiments.translation.test_sets import TestSets
from fairseq_ext.experiments.translation.translate import translation_dir


@dataclass(frozen=True)
class ScoredRun:
    """What gets one score a column: an output run; of a system trained per domain, all of them together.

    Attributes:
        name: ``gad``, or ``gad@1`` of several; ``ft`` for ``ft@IT``, ``ft@LAW`` …
        parts: the output runs.
    """

    name: str
    parts: tuple[OutputRun, ...]

    def folders(self, config: TranslationExperiment) -> list[Path]:
        """The folders of translations that have been made."""
        return [path for part in self.parts for path in _folders(config, part) if path.is_dir()]

    def missing(self, config: TranslationExperiment) -> list[str]:
        """The folders that have not been made, as ``translations/RUN`` and ``extra/RUN``."""
        folders = [path for part in self.parts for path in _folders(config, part)]
        return [f"{path.parent.name}/{path.name}" for path in folders if not path.is_dir()]

    def files(self, config: TranslationExperiment, tests: TestSets) -> dict[str, Path]:
        """The translations by test set, as far as they have been made."""
        files: dict[str, Path] = {}
        for part in self.parts:
            translated, extra = translation_dir(config, part.name), translations_dir(config, part.name)
            domains = [part.run.domain] if part.run.domain else tests.domains
            files |= {name: translated / f"{name}.{config.target_lang}" for name in domains if translated.is_dir()}
            if extra.is_dir():
                found = {column_of(config, name): name for name in sets_for(config, part)}
                files |= {c: extra / f"{name}.{config.target_lang}" for c, name in found.items() if c in tests.extra}
        return files


def _folders(config: TranslationExperiment, run: OutputRun) -> list[Path]:
    extra = [translations_dir(config, run.name)] if sets_for(config, run) else []
    return [translation_dir(config, run.name), *extra]


def find_runs(config: TranslationExperiment) -> dict[str, list[ScoredRun]]:
    """The runs of every output, whether they have been translated or not."""
    found = {}
    for output in config.outputs:
        runs = config.output_runs(output)
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
