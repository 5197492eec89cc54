"""Ways to tune a RoBERTa for a task, named as in options.

Configs that name them are checked without torch, so this module does not import it.
"""

ARCHITECTURE = "roberta_houlsby_adapter"  # prefix of the names of all its presets
# Adapters and norms, norms alone, the last layers of the base, or the whole base; always with the head.
TUNINGS = ("adapters", "norms", "top", "full")
DEFAULT_TUNING = "adapters"
DEFAULT_BOTTLENECK_DIM = 64
