"""Exported systems: :class:`SystemTranslator` translates requests without PyTorch and fairseq."""

from fairseq_ext.serve.runtime.requests import Answer, Candidate, Request
from fairseq_ext.serve.runtime.translator import SystemTranslator

__all__ = ["Answer", "Candidate", "Request", "SystemTranslator"]
