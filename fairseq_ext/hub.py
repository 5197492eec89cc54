"""Translating from Python: ``from fairseq_ext.hub import DomainTranslator``."""

import fairseq_ext.registration  # noqa: F401  what checkpoints name, and what makes them safe to read
from fairseq_ext.models.hub_interface import DomainTranslator

__all__ = ["DomainTranslator"]
