"""Benchmarks of ``tools/benchmark.py``: one file per verb, which lists its cases; ``shared/`` runs them."""
