"""Limits of the service. Each one is an option of ``fairseq-ext serve``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

USUAL_BEAM = 5  # fairseq's default


def _limit(default: int, words: str, least: int = 1) -> Any:
    return field(default=default, metadata={"help": words, "least": least})


@dataclass(frozen=True)
class Limits:
    """Limits on requests, batches and connections."""

    queue: int = _limit(1024, "maximum number of waiting texts; further requests get status 503")
    max_tokens: int = _limit(
        256, "source tokens per batch, and the work of its terms, tags and placeholders; use more on a GPU"
    )
    window: float = _limit(10, "milliseconds that the first text of a batch waits for more texts", least=0)
    connections: int = _limit(
        512, "open connections; beyond this, the longest idle one is closed, or if none is idle, new ones get 503"
    )
    max_bytes: int = _limit(1 << 20, "bytes per request")
    max_file_bytes: int = _limit(8 << 20, "bytes of a file to translate")
    max_texts: int = _limit(256, "texts per request")
    max_characters: int = _limit(20_000, "total characters of all texts of a request")
    max_beam: int = _limit(16, "largest beam size that a request may set")
    max_work: int = _limit(
        200_000,
        "work of a request: beam size times the subwords of its texts and required terms, and its tags; a placeholder "
        "counts as 16 subwords",
    )
    patience: float = _limit(20, "seconds for a client to send its request, and to make progress in reading the answer")

    @property
    def batch_cost(self) -> int:
        """Maximum cost of a batch: source tokens, and the work of terms and marks, times beam size."""
        return self.max_tokens * USUAL_BEAM
