"""Translation from Python: ``from fairseq_ext.hub import DomainTranslator``."""

import fairseq_ext.registration  # noqa: F401  registers what checkpoints refer to, and makes loading them safe
from fairseq_ext.models.hub_interface import DomainTranslator

__all__ = ["DomainTranslator"]
