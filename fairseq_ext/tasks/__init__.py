"""Registered tasks, one per file."""

from fairseq_ext.tasks import multi_domain_language_modeling, multi_domain_translation  # noqa: F401
