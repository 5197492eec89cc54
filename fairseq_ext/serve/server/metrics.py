"""Prometheus metrics of the service."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters and histograms of one service, in a separate registry."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.text = partial(generate_latest, registry)  # all metrics in Prometheus' text format
        ProcessCollector(registry=registry)
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self.requests = counter(
            "translation_requests", "Translation requests, by HTTP status; 499: client disconnected", ["status"]
        )
        self.sentences = counter("translation_sentences", "Texts translated, by route", ["route"])
        self.tokens = counter("translation_source_tokens", "Source tokens translated")
        self.dropped = counter("translation_dropped_sentences", "Texts dropped because their client disconnected")
        self.latency = histogram("translation_request_seconds", "Seconds from request to answer", buckets=_SECONDS)
        self.batch_sentences = histogram("translation_batch_sentences", "Texts per batch", buckets=_SENTENCES)
        self.batch_seconds = histogram("translation_batch_seconds", "Seconds per batch", buckets=_SECONDS)
        self.queue = Gauge("translation_queue_sentences", "Waiting texts", registry=registry)
