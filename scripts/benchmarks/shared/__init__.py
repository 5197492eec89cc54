"""What the verbs of ``scripts/benchmark.py`` share."""
