"""Shared code of the verbs of ``tools/benchmark.py``."""
