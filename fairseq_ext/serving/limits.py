"""How much a service takes on. Each limit is an option of ``fairseq-ext serve``, which says what it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

USUAL_BEAM = 5  # fairseq's


def _limit(default: int, words: str, least: int = 1) -> Any:
    return field(default=default, metadata={"help": words, "least": least})


@dataclass(frozen=True)
class Limits:
    """Of requests, of batches and of connections."""

    queue: int = _limit(1024, "texts that may wait; beyond it clients are told to come back (503)")
    max_tokens: int = _limit(256, "source tokens of a batch; more pay on a GPU")
    window: float = _limit(10, "milliseconds that the first text of a batch waits for others", least=0)
    connections: int = _limit(
        512, "open connections; beyond it, the longest idle one is closed; if none is, a new one gets 503"
    )
    max_bytes: int = _limit(1 << 20, "of a request")
    max_texts: int = _limit(256, "of a request")
    max_characters: int = _limit(20_000, "of all texts of a request")
    max_beam: int = _limit(16, "that a request may ask for")
    patience: float = _limit(20, "seconds for a client to send its request, and to read on in its answer")

    @property
    def batch_cost(self) -> int:
        """Of all texts of a batch: source tokens, times the beam."""
        return self.max_tokens * USUAL_BEAM
