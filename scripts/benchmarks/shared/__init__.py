"""Shared code of the verbs of ``scripts/benchmark.py``."""
