"""Base of both multi-domain tasks: options, splits of a data directory, metrics by domain."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.dataclass import ChoiceEnum
from omegaconf import II

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in, option
from fairseq_ext.data.data_directory import (
    VocabularyMemory,
    check_directories,
    check_vocabulary_files,
    read_domains,
    split_directories,
)
from fairseq_ext.data.multi_domain_dataset import MultiDomainDataset, upsampling_repetitions
from fairseq_ext.tasks.domain_metrics import log_by_domain, mark_domain, unmarked
from fairseq_ext.tasks.idle_rows import only_active_change
from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class MultiDomainConfig(PrecisionConfig):
    """Options of every multi-domain task."""

    upsampling: ChoiceEnum(["none", "max", "temperature"]) = option(  # type: ignore[valid-type]
        "max",
        "sizes of domains in an epoch: unchanged (none), all as large as the largest (max), or by temperature "
        "(default: max, the paper's)",
    )
    upsampling_temperature: float = option(
        5.0, "T with --upsampling temperature: shares are proportional to size^(1/T) (default: 5)"
    )
    train_domains: str = option(
        "",
        "domains to train and validate on, separated by commas; the other domains keep their indices (default: all)",
    )
    seed: int = II("common.seed")
    train_subset: str = II("dataset.train_subset")
    valid_subset: str = II("dataset.valid_subset")
    disable_validation: bool = II("dataset.disable_validation")
    combine_valid_subsets: Optional[bool] = II("dataset.combine_valid_subsets")  # noqa: UP045, fairseq reads no other
    ignore_unused_valid_subsets: Optional[bool] = II("dataset.ignore_unused_valid_subsets")  # noqa: UP045
    num_shards: int = II("dataset.num_shards")
    shard_id: int = II("dataset.shard_id")


# fairseq options that would have no effect or a wrong one on multi-domain data: the accepted values, and a remedy for
# others.
Limits = Mapping[str, tuple[tuple[Any, ...], str]]


@dataclass(frozen=True)
class DataSplit:
    """A part of the data and its use.

    Attributes:
        name: name of its files, without a domain.
        is_train: whether it is trained on; domains are then upsampled and mixed, and use their own adapters.
        is_combined: whether to include the further parts ``train1``, ``train2``, ….
    """

    name: str
    directory: Path
    is_train: bool = False
    is_combined: bool = False


class MultiDomainTask(VocabularyMemory, Precision):
    """A fairseq task over a data directory with one sub-directory per domain. Mixin of fairseq tasks."""

    cfg: Any
    datasets: dict[str, Any]
    measures: Sequence[str]  # metrics to log for each domain in validation
    typed = range(0)  # numbers of the lines that fairseq-interactive read last
    limits: Limits = {
        "dataset_impl": (
            (None, "mmap", "cached"),
            "domains are read only from binarised files; set mmap or cached, or remove the option",
        ),
    }

    def set_directories(self) -> None:
        """Set the data directories and their domains, and reject options in conflict with :attr:`limits`."""
        for name, (taken, remedy) in self.limits.items():
            value = getattr(self.cfg, name)
            if (value if value is None or isinstance(value, (bool, int)) else str(value)) not in taken:
                option = f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
                raise InputError(f"{option}: {remedy}")
        self.directories = split_directories(self.cfg.data)
        for directory in self.directories:
            check_vocabulary_files(directory)
        self.domains = read_domains(self.directories)
        self.train_domains = names_in(self.cfg.train_domains) or self.domains
        for name in self.train_domains:
            check_choice(name, self.domains, "--train-domains")

    # Data

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **_: Any) -> None:
        """Load ``SPLIT`` of all domains (training and validation: --train-domains), or ``SPLIT:DOMAIN``.

        The training set is upsampled and mixed only if fairseq's trainer loads it, recognised by ``combine``.
        Otherwise each example occurs once, in order, as in other splits.
        """
        name, _, only = split.partition(":")
        if only:
            check_choice(only, self.domains, f"split {split}")
        is_train = combine and split == self.cfg.train_subset
        if is_train:
            self._check_training()
        wanted = [only] if only else [*self._domains_of(split), *(self.extra_training_text() if is_train else [])]
        directory = self.directories[(epoch - 1) % len(self.directories) if is_train else 0]
        check_directories(directory, self.domains)
        part = DataSplit(name, directory, is_train, combine)
        corpora = [self.load_corpus(part, domain) for domain in wanted]
        repetitions = None
        if is_train:
            sizes = [len(corpus.examples) for corpus in corpora]
            repetitions = upsampling_repetitions(sizes, str(self.cfg.upsampling), self.cfg.upsampling_temperature)
        self.datasets[split] = self.join_corpora(corpora, repetitions, is_train)

    def _domains_of(self, split: str) -> list[str]:
        """Return the domains of a split, in order."""
        if split in {self.cfg.train_subset, *self._valid_subsets()}:
            return [name for name in self.domains if name in self.train_domains]
        return self.domains

    def extra_training_text(self) -> Sequence[str]:
        """Return sub-directories with training text that is of no domain."""
        return ()

    def _valid_subsets(self) -> list[str]:
        return names_in(self.cfg.valid_subset)

    def _check_training(self) -> None:
        """Reject options that training would not follow."""
        self._refuse_shards("fairseq-train")
        train = self.cfg.train_subset
        if not self.cfg.disable_validation and train in self._valid_subsets():
            parts = ",".join(f"{train}:{name}" for name in self.train_domains)
            raise InputError(f"--valid-subset {train}: the training set is upsampled; set --valid-subset {parts}")
        if not (self.cfg.disable_validation or self.cfg.combine_valid_subsets or self.cfg.ignore_unused_valid_subsets):
            self._require_all_valid_sets()

    def _require_all_valid_sets(self) -> None:
        """Check that all validation sets are used; fairseq's check only looks next to the dictionaries."""
        used = {subset.partition(":")[0] for subset in self._valid_subsets()}
        for path in sorted(self.directories[0].glob("*/valid*.idx")):
            name = path.name.partition(".")[0]
            if re.fullmatch(r"valid\d+", name) and name not in used:
                raise InputError(
                    f"{path.parent}: {name} is not used; add it to --valid-subset, or set --combine-valid-subsets or "
                    "--ignore-unused-valid-subsets"
                )

    def load_corpus(self, split: DataSplit, domain: str) -> Any:
        raise NotImplementedError

    def join_corpora(
        self, corpora: Sequence[Any], repetitions: Sequence[float] | None, is_train: bool
    ) -> MultiDomainDataset[Any]:
        raise NotImplementedError

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        if not ignore_invalid_inputs:
            _, ignored = dataset.filter_indices_by_size(indices, max_positions)
            if len(ignored):
                size = np.asarray(dataset.size(ignored[0])).tolist()
                number = self.typed[ignored[0]] if self.typed else ignored[0]
                raise InputError(
                    f"sentence {number}: has {size} tokens, but the limit is {max_positions}; shorten it, or "
                    "skip it with --skip-invalid-size-inputs-valid-test"
                )
        return super().filter_indices_by_size(  # type: ignore[misc]
            indices, dataset, max_positions, ignore_invalid_inputs
        )

    def get_batch_iterator(
        self, dataset: Any, *args: Any, num_shards: int = 1, shard_id: int = 0, **kwargs: Any
    ) -> Any:
        """Return fairseq's batches; apply --num-shards and --shard-id, which fairseq-generate ignores."""
        if num_shards == 1 and isinstance(dataset, MultiDomainDataset):
            num_shards, shard_id = self.cfg.num_shards, self.cfg.shard_id
        return super().get_batch_iterator(  # type: ignore[misc]
            dataset, *args, num_shards=num_shards, shard_id=shard_id, **kwargs
        )

    def get_interactive_tokens_and_lengths(self, lines: Sequence[str], encode_fn: Any) -> tuple[list, list]:
        """Encode the next lines of fairseq-interactive, which reads them in parts; number them for messages."""
        self.typed = range(self.typed.stop, self.typed.stop + len(lines))
        return super().get_interactive_tokens_and_lengths(lines, encode_fn)  # type: ignore[misc]

    def build_dataset_for_inference(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse_shards("fairseq-interactive")
        return super().build_dataset_for_inference(*args, **kwargs)  # type: ignore[misc]

    def _refuse_shards(self, command: str) -> None:
        if self.cfg.num_shards > 1:
            raise InputError(
                f"--num-shards {self.cfg.num_shards}: {command} does not support shards, only fairseq-generate "
                "and fairseq-eval-lm do; remove the option"
            )

    # Training

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Step the optimiser, but keep unused adapters unchanged, see :mod:`~fairseq_ext.tasks.idle_rows`."""
        with only_active_change(optimizer, model):
            super().optimizer_step(optimizer, model, update_num)  # type: ignore[misc]

    # Validation

    def valid_step(self, sample: dict, model: Any, criterion: Any) -> tuple[Any, Any, dict]:
        """Validate a batch of one domain, and log it also under that domain."""
        self._refuse_shards("fairseq-validate")
        loss, sample_size, log = super().valid_step(sample, model, criterion)  # type: ignore[misc]
        return loss, sample_size, mark_domain(log, int(sample["domain_ids"][0]), len(self.domains))

    def reduce_metrics(self, logging_outputs: list[dict], criterion: Any) -> None:
        """Log overall metrics; in validation also the measures of each domain and their plain averages."""

        def reduce(logs: list[dict]) -> None:
            super(MultiDomainTask, self).reduce_metrics(logs, criterion)  # type: ignore[misc]

        reduce(unmarked(logging_outputs))
        log_by_domain(logging_outputs, self.domains, reduce, self.measures)
