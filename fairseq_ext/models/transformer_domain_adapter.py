"""AD: plain domain adapters (Bapna & Firat 2019). The sentence's domain selects the adapter."""

from __future__ import annotations

from typing import Any

from fairseq.models import register_model

from fairseq_ext.models.adapter_transformer import AdapterTransformerModel, register_sizes
from fairseq_ext.modules.routers import GivenRouter


@register_model("transformer_domain_adapter")
class TransformerDomainAdapterModel(AdapterTransformerModel):
    """Every sentence uses the adapters of its domain; ``domain_ids`` (B,) is required."""

    needs_domains = True

    def build_router(self, config: Any, embed_dim: int, num_adapters: int, causal: bool) -> GivenRouter:
        return GivenRouter()


register_sizes("transformer_domain_adapter")
