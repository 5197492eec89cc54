"""AD: plain domain adapters (Bapna & Firat 2019). The sentence's domain chooses the adapter."""

from __future__ import annotations

from argparse import Namespace

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture, tiny_architecture
from torch import nn

from fairseq_ext.models.adapter_transformer import (
    AdapterTransformerModel,
    TranslationAdapterConfig,
    small_architecture,
)
from fairseq_ext.models.base_layout import same_as_base, sized_by_base
from fairseq_ext.modules.routers import GivenRouter


@register_model("transformer_domain_adapter")
class TransformerDomainAdapterModel(AdapterTransformerModel):
    """Every sentence passes the adapters of its own domain; ``domain_ids`` (B,) is required."""

    needs_domains = True

    def build_routers(
        self, config: TranslationAdapterConfig, embed_dim: int, num_adapters: int, num_layers: int, causal: bool
    ) -> list[nn.Module]:
        return [GivenRouter() for _ in range(num_layers)]


@register_model_architecture("transformer_domain_adapter", "transformer_domain_adapter")
@sized_by_base
def transformer_domain_adapter(args: Namespace) -> None:
    """The base checkpoint's size; without one the paper's: Transformer base, 6+6 layers, 512/2048/8."""
    base_architecture(args)


# On top of --arch transformer_small and fairseq's transformer_tiny.
for _size, _preset in (("small", small_architecture), ("tiny", tiny_architecture)):
    register_model_architecture("transformer_domain_adapter", f"transformer_domain_adapter_{_size}")(
        same_as_base(_preset)
    )
