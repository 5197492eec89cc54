"""Which layers' adapters matter: every span of layers without them, not trained again (Houlsby et al. 2019, §3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fairseq  # noqa: F401  before the package's registrations

from fairseq_ext.classifiers.predictions import ExampleSet, logits_of
from fairseq_ext.metrics.classification import measure


def ablate_spans(
    model: Any, task: str, examples: ExampleSet, metric: str, labels: Sequence[str], batch_size: int = 64
) -> dict[str, Any]:
    """Measure a task without the adapters of each span of neighbouring layers; its norms and head stay as they are.

    Args:
        model: that has the task.
        task: its name.
        examples: of the task.
        metric: by which to measure.
        labels: the task's; none for a regression.
        batch_size: examples at a time.

    Returns:
        ``metric``; ``full``, its value with all adapters; ``without``, L lists of L values by first and last layer left
        out, None where the last comes before the first.
    """

    def score(layers: range) -> float:
        with model.without_adapters(layers):
            logits = logits_of(model, task, examples.texts, batch_size)
        return measure([metric], logits, examples.targets, labels).values[metric]

    num_layers = len(model.encoder.sentence_encoder.layers)
    return {
        "metric": metric,
        "full": score(range(0)),
        "without": [
            [score(range(first, last + 1)) if first <= last else None for last in range(num_layers)]
            for first in range(num_layers)
        ],
    }
