"""Names and choices shared by models, criterions and experiment files of language models; defaults come first.

Configs that name them are checked without torch, so this module does not import it.
"""

# Registered models; names of presets begin with these.
CAUSAL_LM = "causal_lm"
HIERARCHICAL_ADAPTERS = "transformer_lm_hier_adapter"
TOPIC_MODEL = "transformer_lm_topic"
CHUNKED_CRITERION = "chunked_cross_entropy"
TOPIC_CRITERION = "topic_language_modeling"
LANGUAGE_MODELING_TASK = "multi_domain_language_modeling"

ADAPTERS = ("tree", "single", "multi")
NUM_TOPICS = 10
MIXTURES = ("softmaxes", "logits")
TDM = ("triplet", "unit-triplet", "l2", "cross-entropy", "kl", "none")  # topic distribution modelling
NO_TDM = TDM[-1]
TRANSFORMATIONS = ("affine", "multiplication", "addition")  # transformation of a state by a topic
