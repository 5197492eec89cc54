"""Blocks of text of several domains, for language models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import TokenBlockDataset

from fairseq_ext.data.multi_domain_dataset import DomainCorpus, MultiDomainDataset


@dataclass
class BlockCorpus(DomainCorpus):
    """The blocks of one domain (a ``MonolingualDataset``), which never contain text of another.

    Attributes:
        node_weights: N routing weights, shared by all blocks; None if the model has no adapters.
    """

    node_weights: np.ndarray | None = None


class DomainBlocks(MultiDomainDataset[BlockCorpus]):
    """Batches of blocks, with ``node_weights`` (B×N) in ``net_input`` for models that route by them."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(index) | {"node_weights": self.locate(index)[0].node_weights}

    def add_to_batch(self, batch: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        weights = [row["node_weights"] for row in rows]
        if all(row is not None for row in weights):
            batch["net_input"]["node_weights"] = torch.from_numpy(np.stack(weights))


def _cutting_sentences(cut: Callable[..., Any]) -> Callable[..., Any]:
    """Make fairseq's blocks of one sentence (``--sample-break-mode eos``, typed lines) work with numpy ≥ 2.3.

    fairseq uses a name that numpy has removed.
    """

    def cut_or_count(sizes: Any, break_mode: Any, document_sep_len: int, block_size: int | None) -> Any:
        if break_mode != "eos":
            return cut(sizes, break_mode, document_sep_len, block_size)
        lengths = np.asarray(sizes, dtype=np.int64)
        ends = lengths.cumsum()
        numbers = np.arange(len(lengths))
        block_to_sentence = np.stack([numbers, np.zeros_like(numbers), numbers], 1)  # first, offset in it, last
        return lengths, block_to_sentence, np.stack([ends - lengths, ends], 1)

    return cut_or_count


PATCHES = [(TokenBlockDataset, "_build_slice_indices", _cutting_sentences)]
