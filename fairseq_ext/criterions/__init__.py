"""Registered criterions, one per file."""

from fairseq_ext.criterions import (  # noqa: F401
    chunked_cross_entropy,
    label_smoothed_cross_entropy_with_kd_gate,
    topic_language_modeling,
)
