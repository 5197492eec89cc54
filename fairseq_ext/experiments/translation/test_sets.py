"""What an experiment is measured on: its domains' test sets, those beside them, and the classifier's mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import count_lines, read_lines, read_lines_like
from fairseq_ext.data.teacher_labels import read_teacher_probs
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.extra_sets import column_of, sets_dir


@dataclass(frozen=True)
class TestSets:
    """The test sets by name: every domain in order, then every further set, as ``test:NAME`` or ``ood:NAME``.

    Attributes:
        domains: D names, in order.
        extra: the further sets.
        sources: N lines a set.
        references: their translations.
        is_misclassified: N truth values a domain, whether the classifier takes the sentence for another domain's;
            None without a teacher.
        train_sizes: training sentences a domain, the weights of wAVG.
        reference_files: where the references were read, for messages.
    """

    domains: list[str]
    extra: list[str]
    sources: dict[str, list[str]]
    references: dict[str, list[str]]
    is_misclassified: dict[str, np.ndarray] | None
    train_sizes: dict[str, int]
    reference_files: dict[str, Path]

    @classmethod
    def of(cls, config: TranslationExperiment, extra: Sequence[str] = ()) -> TestSets:
        """Read the test sets of an experiment.

        Args:
            config: the experiment.
            extra: names of its further sets, as the file has them.

        Raises:
            InputError: naming a file that is missing or does not fit the others.
        """
        splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"
        domains = read_domain_names(splits / DOMAINS_FILE)
        stems = {name: splits / name / "test" for name in domains}
        further = {column_of(config, name): sets_dir(config) / name for name in extra}
        stems |= further
        files = {name: stem.with_name(f"{stem.name}.{config.target_lang}") for name, stem in stems.items()}
        references = {name: read_lines(path) for name, path in files.items()}
        sources = {
            name: read_lines_like(stem.with_name(f"{stem.name}.{config.source_lang}"), references[name], files[name])
            for name, stem in stems.items()
        }
        lengths = {name: len(references[name]) for name in domains}
        return cls(
            domains,
            list(further),
            sources,
            references,
            _mistakes(teacher, lengths) if teacher.exists() else None,
            {name: count_lines(splits / name / f"train.{config.target_lang}") for name in domains},
            files,
        )

    @property
    def num_misclassified(self) -> int:
        return sum(int(wrong.sum()) for wrong in (self.is_misclassified or {}).values())


def _mistakes(teacher: Path, lengths: dict[str, int]) -> dict[str, np.ndarray]:
    """For every domain, which of its test sentences the classifier takes for another's."""
    domains = list(lengths)
    return {
        name: read_teacher_probs(teacher, name, "test", domains, length).best() != number
        for number, (name, length) in enumerate(lengths.items())
    }
