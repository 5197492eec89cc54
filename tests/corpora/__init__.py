"""Tests of :mod:`fairseq_ext.corpora`."""

from tests.real_corpora import corpus

__all__ = ["corpus"]
