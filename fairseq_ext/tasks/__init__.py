"""Registered tasks, one per file."""

from fairseq_ext.tasks import (  # noqa: F401
    contiguous_language_modeling,
    masked_language_modeling,
    multi_domain_language_modeling,
    multi_domain_translation,
    task_prediction,
)
