"""One dataset out of one parallel corpus per domain, mixed without copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset, LanguagePairDataset


@dataclass
class DomainCorpus:
    """The sentence pairs of one domain, with what is known of their domains.

    Attributes:
        pairs: N sentence pairs.
        domain_id: the domain they are of.
        routed_ids: N domain numbers to translate them by, or one for all, or None for no domain.
        teacher_probs: N×D, the classifier's, or None.
    """

    pairs: LanguagePairDataset
    domain_id: int
    routed_ids: np.ndarray | int | None = None
    teacher_probs: np.ndarray | None = None

    def route(self, row: int) -> int | None:
        """The domain by which sentence ``row`` is translated."""
        if self.routed_ids is None or isinstance(self.routed_ids, int):
            return self.routed_ids
        return int(self.routed_ids[row])


class MultiDomainDataset(FairseqDataset):
    """The corpora of several domains behind one index; an epoch may visit a domain more than once.

    Index i of an epoch stands for one sentence of one corpus; the table of these is drawn anew for every
    epoch from the seed, nothing is copied. Without ``repetitions`` it is the plain concatenation in the
    domains' order, so that the identifiers of test sentences can be told apart by counting.

    A batch is fairseq's own, with ``domain_ids`` (B,) and ``teacher_probs`` (B×D) beside ``net_input``, in
    the batch's row order.

    Args:
        corpora: one a domain, in the domains' order.
        repetitions: how often an epoch visits each corpus (any number ≥ 0, so 1.5 is one whole visit and
            a random half); None for once each, in order.
        seed: of the draw.
        tags: dictionary index of each domain's tag, put in front of the source; None for no tags.
        domains_to_model: also pass ``domain_ids`` to the model.
        single_domain_batches: keep every batch within one domain, so that losses can be told apart.
    """

    def __init__(
        self,
        corpora: Sequence[DomainCorpus],
        repetitions: Sequence[float] | None = None,
        seed: int = 1,
        tags: Sequence[int] | None = None,
        domains_to_model: bool = False,
        single_domain_batches: bool = False,
    ):
        super().__init__()
        self.corpora = list(corpora)
        self.repetitions = repetitions
        self.seed = seed
        self.tags = tags
        self.domains_to_model = domains_to_model
        self.single_domain_batches = single_domain_batches
        self._offsets = np.cumsum([0] + [len(corpus.pairs) for corpus in self.corpora])
        self._sizes = np.concatenate([corpus.pairs.sizes for corpus in self.corpora]) + self._tag_length()
        self.set_epoch(1)

    def _tag_length(self) -> np.ndarray:
        """Tokens that tags add to source and target."""
        return np.array([int(self.tags is not None), 0])

    def set_epoch(self, epoch: int) -> None:
        """Draw the epoch's table: a function of seed and epoch alone, so that training can be resumed."""
        self.epoch = epoch
        self.rows = np.arange(self._offsets[-1]) if self.repetitions is None else self._draw(epoch)

    def _draw(self, epoch: int) -> np.ndarray:
        assert self.repetitions is not None
        rng = np.random.default_rng([self.seed, epoch])
        drawn = []
        for start, stop, times in zip(self._offsets[:-1], self._offsets[1:], self.repetitions, strict=True):
            whole, part = int(times), round((times - int(times)) * (stop - start))
            drawn += [np.arange(start, stop)] * whole + [rng.permutation(np.arange(start, stop))[:part]]
        return np.concatenate(drawn)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return self.repetitions is None

    @property
    def sizes(self) -> np.ndarray:
        """N×2, source and target lengths in tokens, in the epoch's order."""
        return self._sizes[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def locate(self, index: int) -> tuple[DomainCorpus, int]:
        """The corpus of a sentence, and its row there."""
        position = self.rows[index]
        number = int(np.searchsorted(self._offsets, position, side="right")) - 1
        return self.corpora[number], int(position - self._offsets[number])

    def domain_of(self, indices: np.ndarray) -> np.ndarray:
        """The true domain numbers of these indices."""
        numbers = np.searchsorted(self._offsets, self.rows[indices], side="right") - 1
        return np.array([corpus.domain_id for corpus in self.corpora])[numbers]

    def __getitem__(self, index: int) -> dict[str, Any]:
        corpus, row = self.locate(index)
        item = dict(corpus.pairs[row], id=index)
        item["domain_id"] = corpus.domain_id
        item["routed_id"] = routed = corpus.route(row)
        if self.tags is not None and routed is not None:
            source = item["source"]
            item["source"] = torch.cat([source.new_tensor([self.tags[routed]]), source])
        if corpus.teacher_probs is not None:
            item["teacher_probs"] = torch.from_numpy(np.array(corpus.teacher_probs[row], dtype=np.float32))
        return item

    def collater(self, samples: list[dict], pad_to_length: Mapping | None = None) -> dict[str, Any]:
        batch = self.corpora[0].pairs.collater(samples, pad_to_length=pad_to_length)
        if not batch:
            return batch
        # fairseq sorts the rows by length; the identifiers tell which is which.
        by_id = {sample["id"]: sample for sample in samples}
        rows = [by_id[i] for i in batch["id"].tolist()]
        batch["domain_ids"] = torch.tensor([row["domain_id"] for row in rows])
        if self.domains_to_model and rows[0]["routed_id"] is not None:
            batch["net_input"]["domain_ids"] = torch.tensor([row["routed_id"] for row in rows])
        if all("teacher_probs" in row for row in rows):
            batch["teacher_probs"] = torch.stack([row["teacher_probs"] for row in rows])
        return batch

    def num_tokens(self, index: int) -> int:
        return int(self.sizes_of(index).max())

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return self.sizes_of(indices).max(axis=1)

    def size(self, index: int) -> tuple[int, int]:
        source, target = self.sizes_of(index)
        return int(source), int(target)

    def sizes_of(self, indices: Any) -> np.ndarray:
        """…×2, source and target lengths of some indices."""
        return self._sizes[self.rows[indices]]

    def ordered_indices(self) -> np.ndarray:
        """All indices by source length, then target length."""
        sizes = self.sizes
        # The order of equals is drawn anew each epoch, as fairseq does where it shuffles.
        if self.repetitions is None:
            indices = np.arange(len(self))
        else:
            indices = np.random.default_rng([self.seed, self.epoch, 1]).permutation(len(self))
        indices = indices[np.argsort(sizes[indices, 1], kind="stable")]
        return indices[np.argsort(sizes[indices, 0], kind="stable")]

    def batch_by_size(self, indices: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
        """fairseq's batches, and also the last sentences, which it leaves out (see :meth:`_batches`)."""
        if not self.single_domain_batches:
            return self._batches(indices, **kwargs)
        domains = self.domain_of(indices)
        return [batch for d in np.unique(domains) for batch in self._batches(indices[domains == d], **kwargs)]

    def _batches(self, indices: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
        batches = list(super().batch_by_size(indices, **kwargs))
        # fairseq silently drops a last batch that is no multiple of --required-batch-size-multiple (8 by
        # default): up to that many of the longest sentences, in every epoch and from every test set.
        batched = sum(len(batch) for batch in batches)
        return batches + [indices[batched:]] if batched < len(indices) else batches

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> tuple[np.ndarray, list[int]]:
        """Drop pairs of which a side is longer than ``max_sizes`` (source, target)."""
        if max_sizes is None:
            return indices, []
        limits = np.broadcast_to(np.asarray(max_sizes, dtype=float), (2,))
        fits = (self.sizes_of(indices) <= limits).all(axis=1)
        return indices[fits], indices[~fits].tolist()


def upsampling_repetitions(sizes: Sequence[int], mode: str, temperature: float = 1.0) -> list[float]:
    """How often one epoch visits each corpus.

    Args:
        sizes: sentences a domain, each at least 1.
        mode: ``none`` (once each), ``max`` (all as often as to match the largest), or ``temperature``
            (shares ∝ size^(1/T), the largest corpus visited once; Arivazhagan et al. 2019, §4.2).
        temperature: T; 1 keeps the shares, ∞ is ``max``.
    """
    exponent = {"none": 1.0, "max": 0.0, "temperature": 1 / temperature}[mode]
    largest = max(sizes)
    # n · r ∝ n^exponent, with r = 1 for the largest.
    return [(largest / n) ** (1 - exponent) for n in sizes]
