"""Benchmarks of ``scripts/benchmark.py``: one file per verb, which lists its cases; ``shared/`` runs them."""
