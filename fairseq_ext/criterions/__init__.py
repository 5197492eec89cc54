"""Registered criterions, one per file."""

from fairseq_ext.criterions import label_smoothed_cross_entropy_with_kd_gate, topic_language_modeling  # noqa: F401
