"""What Prometheus reads of the service."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters and histograms of one service, in a registry of their own."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "translation_requests", "Requests to /translate by status of HTTP; 499: gone", ["status"], registry=registry
        )
        self.sentences = Counter("translation_sentences", "Texts translated, by route", ["route"], registry=registry)
        self.tokens = Counter("translation_source_tokens", "Source tokens translated", registry=registry)
        self.dropped = Counter(
            "translation_dropped_sentences", "Texts whose client went away before their turn", registry=registry
        )
        self.latency = Histogram(
            "translation_request_seconds", "Time of an answered request", buckets=_SECONDS, registry=registry
        )
        self.batch_sentences = Histogram(
            "translation_batch_sentences", "Texts of a batch", buckets=_SENTENCES, registry=registry
        )
        self.batch_seconds = Histogram(
            "translation_batch_seconds", "Time of a batch", buckets=_SECONDS, registry=registry
        )
        self._queue = Gauge("translation_queue_sentences", "Texts that wait", registry=registry)

    def watch_queue(self, length: Callable[[], int]) -> None:
        """Ask for the length of the queue whenever the metrics are read."""
        self._queue.set_function(length)

    def text(self) -> bytes:
        """All of them in Prometheus' format."""
        return generate_latest(self._registry)
