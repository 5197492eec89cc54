"""AD: plain domain adapters (Bapna & Firat 2019). The sentence's domain selects the adapter."""

from __future__ import annotations

from fairseq.models import register_model
from torch import nn

from fairseq_ext.models.adapter_transformer import (
    AdapterTransformerModel,
    TranslationAdapterConfig,
    register_sizes,
)
from fairseq_ext.modules.routers import GivenRouter


@register_model("transformer_domain_adapter")
class TransformerDomainAdapterModel(AdapterTransformerModel):
    """Every sentence uses the adapters of its domain; ``domain_ids`` (B,) is required."""

    needs_domains = True

    def build_routers(
        self, config: TranslationAdapterConfig, embed_dim: int, num_adapters: int, num_layers: int, causal: bool
    ) -> list[nn.Module]:
        return [GivenRouter() for _ in range(num_layers)]


register_sizes("transformer_domain_adapter")
