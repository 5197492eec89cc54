"""What ``scripts/benchmark.py`` measures: a file a verb, which names its cases; ``shared/`` runs them."""
