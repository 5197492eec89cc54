"""Registered models, one per file."""

from fairseq_ext.models import (  # noqa: F401
    bert,
    causal_lm,
    dagru_lm,
    roberta_houlsby_adapter,
    transformer_domain_adapter,
    transformer_gated_adapter,
    transformer_lm_hier_adapter,
    transformer_lm_topic,
)
