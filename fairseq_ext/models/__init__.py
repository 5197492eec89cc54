"""Registered models, one per file."""

from fairseq_ext.models import transformer_domain_adapter, transformer_gated_adapter  # noqa: F401
