"""Translation from Python: ``from fairseq_ext.hub import DomainTranslator``."""

from fairseq_ext.models.hub_interface import DomainTranslator

__all__ = ["DomainTranslator"]
