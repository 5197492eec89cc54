"""What both multi-domain tasks share: the options, the splits of a data directory, figures by domain."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from fairseq_ext.data.data_directory import check_directories
from fairseq_ext.data.multi_domain_dataset import MultiDomainDataset, upsampling_repetitions
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.evaluation.domain_metrics import log_by_domain, mark_domain, unmarked
from fairseq_ext.tasks.matmul_precision import MatmulPrecision, MatmulPrecisionConfig


@dataclass
class MultiDomainConfig(MatmulPrecisionConfig):
    """Options of every multi-domain task."""

    upsampling: ChoiceEnum(["none", "max", "temperature"]) = field(  # type: ignore[valid-type]
        default="max",
        metadata={
            "help": "domains in an epoch: as large as they are (none), all as the largest (max), or by temperature "
            "(default: max, the paper's)"
        },
    )
    upsampling_temperature: float = field(
        default=5.0,
        metadata={"help": "T of --upsampling temperature: shares are proportional to size^(1/T) (default: 5)"},
    )
    train_domains: str = field(
        default="",
        metadata={
            "help": "domains to train and validate on, separated by commas; the others keep their numbers "
            "(default: all)"
        },
    )
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")


class MultiDomainTask(MatmulPrecision):
    """A fairseq task over a data directory with one sub-directory per domain; mixed into a task of fairseq's.

    ::

        data-bin/domains.txt                      the domains, sorted
        data-bin/DOMAIN/SPLIT…                    binarised

    A split named ``test`` is that of all domains in their order, ``test:DOMAIN`` that of one.
    """

    cfg: Any
    datasets: dict[str, Any]
    measures: Sequence[str] = ("loss",)  # logged for each domain in validation

    def set_domains(self, domains: list[str]) -> None:
        """Take the data's domains.

        Raises:
            InputError: if --train-domains names another.
        """
        self.domains = domains
        self.train_domains = [name.strip() for name in self.cfg.train_domains.split(",") if name.strip()] or domains
        self.check_option("--train-domains", self.train_domains)

    def check_option(self, option: str, names: Sequence[str]) -> None:
        """Check the domains that an option names.

        Raises:
            InputError: if the data have no such domain.
        """
        for name in names:
            if name not in self.domains:
                listed = ", ".join(self.domains)
                raise InputError(f"{option} {name}: unknown; {self.cfg.data}/{DOMAINS_FILE} has {listed}")

    # Data

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **_: Any) -> None:
        """Load ``SPLIT`` of all domains, where it trains or validates of --train-domains, or ``SPLIT:DOMAIN``."""
        name, _, only = split.partition(":")
        if only and only not in self.domains:
            raise InputError(f"split {split}: unknown domain {only}; there are {', '.join(self.domains)}")
        is_train = split == self.cfg.train_subset
        domains = [only] if only else self._domains_of(split)
        corpora = [self.load_corpus(name, domain, is_train) for domain in domains]
        repetitions = None
        if is_train:
            sizes = [len(corpus.examples) for corpus in corpora]
            repetitions = upsampling_repetitions(sizes, str(self.cfg.upsampling), self.cfg.upsampling_temperature)
        self.datasets[split] = self.join_corpora(corpora, repetitions, is_train)

    def _domains_of(self, split: str) -> list[str]:
        """The domains that a split is made of, in their order."""
        if split in {self.cfg.train_subset, *str(self.cfg.valid_subset).split(",")}:
            return [name for name in self.domains if name in self.train_domains]
        return self.domains

    def load_corpus(self, split: str, domain: str, is_train: bool) -> Any:
        """Load one domain's part of a split."""
        raise NotImplementedError

    def join_corpora(
        self, corpora: Sequence[Any], repetitions: Sequence[float] | None, is_train: bool
    ) -> MultiDomainDataset[Any]:
        """Make the dataset of a split out of its domains' parts."""
        raise NotImplementedError

    # Validation

    def valid_step(self, sample: dict, model: Any, criterion: Any) -> tuple[Any, Any, dict]:
        """Validate a batch, all of one domain, and log it under that domain too."""
        loss, sample_size, log = super().valid_step(sample, model, criterion)  # type: ignore[misc]
        return loss, sample_size, mark_domain(log, int(sample["domain_ids"][0]), self.domains)

    def reduce_metrics(self, logging_outputs: list[dict], criterion: Any) -> None:
        """Overall metrics; in validation also the measures of each domain, and their plain averages."""

        def reduce(logs: list[dict]) -> None:
            super(MultiDomainTask, self).reduce_metrics(logs, criterion)  # type: ignore[misc]

        reduce(unmarked(logging_outputs))
        log_by_domain(logging_outputs, self.domains, reduce, self.measures)


def read_directory(data: Path) -> list[str]:
    """The domains of a data directory.

    Raises:
        InputError: if its list is missing, or does not go with its sub-directories.
    """
    domains = read_domain_names(data / DOMAINS_FILE)
    check_directories(data, domains)
    return domains
