"""What models, criterions and experiment files of language models share: names, and choices with the default first.

Files name them that are read and checked without torch, so this imports nothing.
"""

# Registered models; with these the names of their presets begin.
HIERARCHICAL_ADAPTERS = "transformer_lm_hier_adapter"
TOPIC_MODEL = "transformer_lm_topic"
TOPIC_CRITERION = "topic_language_modeling"
LANGUAGE_MODELING_TASK = "multi_domain_language_modeling"

ADAPTERS = ("tree", "single", "multi")
NUM_TOPICS = 10
MIXTURES = ("softmaxes", "logits")
TDM = ("triplet", "unit-triplet", "l2", "cross-entropy", "kl", "none")  # topic distribution modelling
NO_TDM = TDM[-1]
TRANSFORMATIONS = ("affine", "multiplication", "addition")  # what a topic does with a state
