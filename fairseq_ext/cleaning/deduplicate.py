"""Finding repeated pairs of a corpus of any size.

Pairs are compared as 128-bit hashes of their folded text. These are kept on disk by block and sorted
bucket by bucket, so that memory does not grow with the corpus, but for one byte a pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from fairseq_ext.corpora.folded_text import fold
from fairseq_ext.corpora.text_files import Pair

_BUCKET_PAIRS = 2_000_000
_KEY_BYTES = 16


def pair_keys(pairs: Iterable[Pair], by: str) -> np.ndarray:
    """Hashes, N×2 (uint64), that are equal where ``pair``, ``source`` or ``target`` of pairs repeat each other."""
    if by == "pair":
        texts = (f"{fold(source)}\0{fold(target)}" for source, target in pairs)
    else:
        side = ("source", "target").index(by)
        texts = (fold(pair[side]) for pair in pairs)
    digests = (hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def find_repeats(blocks: Sequence[np.ndarray], bucket_pairs: int = _BUCKET_PAIRS) -> np.ndarray:
    """Which pairs repeat an earlier one.

    Args:
        blocks: keys in the corpus's order, cut anywhere; memory-mapped files will do.
        bucket_pairs: about how many keys are sorted at a time.

    Shape:
        result: N (bool), of all blocks together
    """
    sizes = [len(block) for block in blocks]
    starts = np.cumsum([0, *sizes])
    repeats = np.zeros(int(starts[-1]), dtype=bool)
    num_buckets = -(-len(repeats) // bucket_pairs)
    for bucket in range(num_buckets):
        chosen = [np.flatnonzero(block[:, 0] % num_buckets == bucket) for block in blocks]
        keys = np.concatenate([block[rows] for block, rows in zip(blocks, chosen, strict=True)])
        positions = np.concatenate([rows + start for rows, start in zip(chosen, starts, strict=False)])
        # The sort is stable, so the first of equal keys stays the first in the corpus.
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        equal = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
        repeats[positions[order[1:][equal]]] = True
    return repeats
