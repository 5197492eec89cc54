"""A dataset that mixes one corpus per domain, without copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from fairseq.data import FairseqDataset

from fairseq_ext.base.errors import InputError

_MOST_INT32 = np.iinfo(np.int32).max


@dataclass
class DomainCorpus:
    """The examples of one domain: sentence pairs, or blocks of text.

    Attributes:
        examples: any fairseq dataset, of N examples.
        domain_id: index of their domain.
    """

    examples: FairseqDataset
    domain_id: int


Corpus = TypeVar("Corpus", bound=DomainCorpus)


class MultiDomainDataset(FairseqDataset, Generic[Corpus]):
    """The corpora of several domains as one dataset; an epoch can repeat a domain.

    Index i of an epoch refers to an example of a corpus. The table of indices is sampled for every epoch
    from the seed; no examples are copied. Without ``repetitions`` it is the plain concatenation in the
    domains' order.

    A batch is fairseq's own, plus ``domain_ids`` (B,) next to ``net_input``, in the batch's row order.

    Args:
        corpora: one per domain, in the domains' order.
        repetitions: number of times that an epoch repeats each corpus, ≥ 0 (1.5 is the whole corpus and a
            random half); None for once each, in order.
        seed: random seed of the sampling.
        single_domain_batches: whether all examples of a batch are from one domain, so that losses can be
            attributed to domains.
        opening_tokens: number of tokens prepended to every source that the corpora's ``sizes`` do not include.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        repetitions: Sequence[float] | None = None,
        seed: int = 1,
        single_domain_batches: bool = False,
        opening_tokens: int = 0,
    ):
        super().__init__()
        self.corpora = list(corpora)
        self.repetitions = repetitions
        self.seed = seed
        self.single_domain_batches = single_domain_batches
        self._offsets = np.cumsum([0] + [len(corpus.examples) for corpus in self.corpora])
        self._sizes = side_sizes([corpus.examples.sizes for corpus in self.corpora], opening_tokens)  # S×N
        self._longest = self._sizes.max(axis=0)
        self._number = np.int32 if self._offsets[-1] <= _MOST_INT32 else np.int64
        self.epoch = 0
        self.set_epoch(1)

    def set_epoch(self, epoch: int) -> None:
        """Sample the epoch's table from seed and epoch alone, so that training can be resumed."""
        if epoch == self.epoch:  # fairseq sets each epoch twice
            return
        self.epoch = epoch
        repetitions = [1.0] * len(self.corpora) if self.repetitions is None else self.repetitions
        rng = np.random.default_rng([self.seed, epoch])
        spans = list(zip(self._offsets[:-1], self._offsets[1:], repetitions, strict=True))
        parts = [round((times - int(times)) * (stop - start)) for start, stop, times in spans]
        drawn = []
        for number, (start, stop, times) in enumerate(spans):
            whole = np.arange(start, stop, dtype=self._number)
            drawn += [whole] * int(times)
            if any(parts[number:]):  # later domains depend on the generator's state
                drawn.append(rng.permutation(whole)[: parts[number]])
        self.rows = np.concatenate(drawn)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        return self.repetitions is None

    @property
    def sizes(self) -> np.ndarray:
        """N×S, the length of each side in tokens, in the epoch's order."""
        return self.sizes_of(slice(None))

    def __len__(self) -> int:
        return len(self.rows)

    def locate(self, index: int) -> tuple[Corpus, int]:
        """Return the corpus of an example and its row there."""
        position = self.rows[index]
        number = int(np.searchsorted(self._offsets, position, side="right")) - 1
        return self.corpora[number], int(position - self._offsets[number])

    def domain_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the true domains of these indices."""
        numbers = np.searchsorted(self._offsets, self.rows[indices], side="right") - 1
        return np.array([corpus.domain_id for corpus in self.corpora])[numbers]

    def __getitem__(self, index: int) -> dict[str, Any]:
        corpus, row = self.locate(index)
        return dict(corpus.examples[row], id=index, domain_id=corpus.domain_id)

    @property
    def supports_prefetch(self) -> bool:
        """Whether examples must be prefetched, as with ``--dataset-impl cached``."""
        return any(getattr(corpus.examples, "supports_prefetch", False) for corpus in self.corpora)

    def prefetch(self, indices: Sequence[int]) -> None:
        """Prefetch the examples of these indices."""
        positions = np.unique(self.rows[np.asarray(indices, dtype=np.int64)])
        for corpus, start, stop in zip(self.corpora, self._offsets[:-1], self._offsets[1:], strict=True):
            rows = positions[(positions >= start) & (positions < stop)] - start
            if len(rows) and getattr(corpus.examples, "supports_prefetch", False):
                corpus.examples.prefetch(rows.tolist())

    def collater(self, samples: list[dict], **kwargs: Any) -> dict[str, Any]:
        batch = self.corpora[0].examples.collater(samples, **kwargs)
        if not batch:
            return batch
        # fairseq may sort the rows by length; ids identify them.
        by_id = {sample["id"]: sample for sample in samples}
        rows = [by_id[i] for i in batch["id"].tolist()]
        batch["domain_ids"] = torch.tensor([row["domain_id"] for row in rows])
        self.add_to_batch(batch, rows)
        return batch

    def add_to_batch(self, batch: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        """Add further properties of the examples to their batch, in place."""

    def num_tokens(self, index: int) -> int:
        return int(self.sizes_of(index).max())

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return self._longest[self.rows[indices]]

    def size(self, index: int) -> Any:
        sides = self.sizes_of(index).tolist()
        return tuple(sides) if len(sides) > 1 else sides[0]

    def sizes_of(self, indices: Any) -> np.ndarray:
        """Return the length of each side of these indices: …×S."""
        return self._sizes.T[self.rows[indices]].astype(np.int64)

    def ordered_indices(self) -> np.ndarray:
        """Return all indices, sorted by source length, then target length."""
        # Ties are shuffled in each epoch, as fairseq does.
        if self.repetitions is None:
            indices = np.arange(len(self))
        else:
            indices = np.random.default_rng([self.seed, self.epoch, 1]).permutation(len(self))
        for side in self._sizes[::-1]:  # numpy uses radix sort for up to 16 bits
            indices = indices[np.argsort(side[self.rows][indices], kind="stable")]
        return indices

    def batch_by_size(self, indices: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
        """Return fairseq's batches, plus the last examples, which it leaves out (see :meth:`_batches`)."""
        if not self.single_domain_batches:
            return self._batches(indices, **kwargs)
        domains = self.domain_of(indices)
        by_domain = [self._batches(indices[domains == d], **kwargs) for d in np.unique(domains)]
        # Interleaved, so that the first batches (--max-valid-steps) cover all domains.
        return [batch for batches in zip_longest(*by_domain) for batch in batches if batch is not None]

    def _batches(self, indices: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
        if not len(indices):
            raise InputError(
                f"no sentence fits: --max-tokens {kwargs.get('max_tokens')} or the position limits are too low; "
                "increase them"
            )
        batches = list(super().batch_by_size(indices, **kwargs))
        # fairseq silently drops a last batch whose size is not a multiple of --required-batch-size-multiple (8 by
        # default): some of the longest sentences, in every epoch and every test set.
        batched = sum(len(batch) for batch in batches)
        return batches + [indices[batched:]] if batched < len(indices) else batches

    def filter_indices_by_size(self, indices: np.ndarray, max_sizes: Any) -> tuple[np.ndarray, list[int]]:
        """Drop examples with a side longer than ``max_sizes``: one number, or one per side."""
        if max_sizes is None:
            return indices, []
        limits = np.broadcast_to(np.asarray(max_sizes, dtype=float), len(self._sizes))
        fits = np.ones(self._sizes.shape[1], dtype=bool)
        for side, limit in zip(self._sizes, limits, strict=True):
            fits &= side <= limit
        if fits.all():
            return indices, []
        is_kept = fits[self.rows[indices]]
        return indices[is_kept], indices[~is_kept].tolist()


def upsampling_repetitions(sizes: Sequence[int], mode: str, temperature: float = 1.0) -> list[float]:
    """Return the number of times that an epoch repeats each corpus.

    Args:
        sizes: number of examples per domain, each at least 1.
        mode: ``none`` (once each), ``max`` (all as large as the largest), or ``temperature``
            (shares ∝ size^(1/T), the largest corpus once; Arivazhagan et al. 2019, §4.2).
        temperature: T; 1 keeps the shares, ∞ is ``max``.
    """
    exponent = {"none": 1.0, "max": 0.0, "temperature": 1 / temperature}[mode]
    largest = max(sizes)
    # n · r ∝ n^exponent, with r = 1 for the largest.
    return [(largest / n) ** (1 - exponent) for n in sizes]


def side_sizes(sizes: Sequence[np.ndarray], opening_tokens: int = 0) -> np.ndarray:
    """Return the lengths of all examples of several corpora in the smallest sufficient dtype.

    Args:
        sizes: lengths per corpus, N or N×S with S sides: source and target, or only one for language models.
        opening_tokens: number to add to the lengths of sources.

    Shape:
        result: S×N
    """
    joined = np.concatenate([np.asarray(each).reshape(len(each), -1) for each in sizes]).T
    smallest = joined.astype(np.min_scalar_type(int(joined.max()) + opening_tokens), order="C")
    smallest[0] += opening_tokens
    return smallest
