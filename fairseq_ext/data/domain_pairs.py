"""Sentence pairs of several domains, for translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset

from fairseq_ext.data.multi_domain_dataset import DomainCorpus, MultiDomainDataset
from fairseq_ext.data.teacher_labels import TeacherLabels


@dataclass
class PairCorpus(DomainCorpus):
    """The sentence pairs of one domain (a ``LanguagePairDataset``), with domains for routing and classifier labels.

    Attributes:
        routed_ids: domain indices for translation, N or one for all, -1 for the base alone; None for no domain.
        routed_weights: N×D, weights of all domains' adapters, used instead of ``routed_ids``; None for none.
        labels: classifier labels, N×D, or None.
    """

    routed_ids: np.ndarray | int | None = None
    routed_weights: TeacherLabels | np.ndarray | None = None
    labels: TeacherLabels | None = None


def general_corpus(pairs: FairseqDataset, num_domains: int, is_labelled: bool) -> PairCorpus:
    """Return general text, which is of no domain, is translated by the base, and has certain labels if any."""
    certain = np.eye(num_domains + 1, dtype=np.float32)[-1]
    labels = TeacherLabels(Path(), np.broadcast_to(certain, (len(pairs), len(certain)))) if is_labelled else None
    return PairCorpus(pairs, num_domains, routed_ids=-1, labels=labels)


class DomainPairs(MultiDomainDataset[PairCorpus]):
    """Batches of sentence pairs with ``domain_ids`` (B,) and, if all have labels, ``teacher_probs`` (B×D).

    Args:
        tags: dictionary index of each domain's tag, prepended to the source; None for no tags.
        domains_to_model: whether to pass domains or their weights to the model.
        forces_domains: whether these domains also override gates.
        options: further arguments of the base class.
    """

    def __init__(
        self,
        corpora: Sequence[PairCorpus],
        *,
        tags: Sequence[int] | None,
        domains_to_model: bool,
        forces_domains: bool,
        **options: Any,
    ):
        super().__init__(corpora, opening_tokens=int(tags is not None), **options)
        self.tags = tags
        self.domains_to_model = domains_to_model
        self.forces_domains = forces_domains

    def __getitem__(self, index: int) -> dict[str, Any]:
        item = super().__getitem__(index)
        corpus, row = self.locate(index)
        ids = corpus.routed_ids
        item["routed_id"] = routed = int(ids[row]) if isinstance(ids, np.ndarray) else ids
        if self.tags is not None and routed is not None:
            source = item["source"]
            item["source"] = torch.cat([source.new_tensor([self.tags[routed]]), source])
        if corpus.routed_weights is not None:
            item["routed_weights"] = corpus.routed_weights[row]
        if corpus.labels is not None:
            item["label_place"] = corpus.labels, row
        return item

    def add_to_batch(self, batch: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        if self.domains_to_model and rows[0]["routed_id"] is not None:
            batch["net_input"]["domain_ids"] = torch.tensor([row["routed_id"] for row in rows])
            if self.forces_domains:
                batch["net_input"]["is_forced"] = torch.ones(len(rows), dtype=torch.bool)
        if self.domains_to_model and "routed_weights" in rows[0]:
            weights = np.stack([row["routed_weights"] for row in rows])
            batch["net_input"]["domain_weights"] = torch.from_numpy(weights)
        if all("label_place" in row for row in rows):
            batch["teacher_probs"] = torch.from_numpy(TeacherLabels.read_each([row["label_place"] for row in rows]))
