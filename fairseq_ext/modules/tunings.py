"""Ways to tune a RoBERTa for a task, by the names that options have.

Files name them that are read and checked without torch, so this imports nothing.
"""

ARCHITECTURE = "roberta_houlsby_adapter"  # with which the names of all its presets begin
# What may be tuned: adapters and norms, norms alone, the last layers of the base, all of it; always the head, too.
TUNINGS = ("adapters", "norms", "top", "full")
DEFAULT_TUNING = "adapters"
DEFAULT_BOTTLENECK_DIM = 64
