"""GAD: gated adapters (Klimaszewski et al. 2023). Learned gates mix the adapters of all domains."""

from argparse import Namespace
from dataclasses import dataclass, field

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture, tiny_architecture
from torch import Tensor, nn

from fairseq_ext.models.adapter_transformer import (
    AdapterConfig,
    AdapterTransformerModel,
    domain_weights,
    small_architecture,
)
from fairseq_ext.modules.routers import GateRouter, RoutingBatch


@dataclass
class GatedAdapterConfig(AdapterConfig):
    """Options of the gates."""

    gate_temperature: float = field(
        default=2.0,
        metadata={"help": "beta: routing weights are softmax(gate logits / beta) (default: 2.0, the paper's)"},
    )
    share_gates: bool = field(
        default=False,
        metadata={"help": "one gate for all encoder layers and one for all decoder layers (default: one a layer)"},
    )


@register_model("transformer_gated_adapter")
class TransformerGatedAdapterModel(AdapterTransformerModel):
    """Gates decide from the hidden states how much of each domain's adapter a sentence gets (Eq. 2-3).

    No domain is needed; one that is forced on a sentence takes the gates' place. Train with
    ``label_smoothed_cross_entropy_with_kd_gate``.
    """

    config_class = GatedAdapterConfig
    needs_domains = False

    def build_routers(
        self, config: AdapterConfig, embed_dim: int, num_adapters: int, num_layers: int, causal: bool
    ) -> list[nn.Module]:
        assert isinstance(config, GatedAdapterConfig)
        gates = [GateRouter(embed_dim, num_adapters, config.gate_temperature, causal) for _ in range(num_layers)]
        if config.share_gates:
            # One weight, but a router a layer: each keeps the running mean of its own layer.
            for gate in gates[1:]:
                gate.weight = gates[0].weight
        return list(gates)

    @torch.no_grad()
    def gate_weights(self, net_input: dict, prev_output_tokens: Tensor) -> dict[str, Tensor]:
        """The routing weights of every layer as they are used, the decoder's averaged over the target positions.

        Shape:
            prev_output_tokens: B×T; result: encoder B×L×D, decoder B×L×D, rows sum to one
        """
        encoder_out = self.encoder(**{k: v for k, v in net_input.items() if k != "prev_output_tokens"})
        _, extra = self.decoder(prev_output_tokens, encoder_out=encoder_out, features_only=True)
        gates = extra["gate_logits"]
        beta = self.encoder.layers[0].adapter.router.temperature
        encoder = (torch.stack(gates["encoder"], dim=1) / beta).softmax(-1)
        decoder = (torch.stack(gates["decoder"], dim=1) / beta).softmax(-1)  # B×L×T×D
        is_token = prev_output_tokens.ne(self.decoder.padding_idx)[:, None, :, None].to(decoder)
        sides = {"encoder": encoder, "decoder": (decoder * is_token).sum(2) / is_token.sum(2)}
        given = domain_weights(self.encoder.layers, net_input.get("domain_ids"))
        batch = RoutingBatch(given_weights=given, is_forced=net_input.get("is_forced"))
        return {side: batch.force(weights.transpose(0, 1)).transpose(0, 1) for side, weights in sides.items()}


@register_model_architecture("transformer_gated_adapter", "transformer_gated_adapter")
def transformer_gated_adapter(args: Namespace) -> None:
    """The paper's size: Transformer base, 6+6 layers, 512/2048/8."""
    base_architecture(args)


# On top of --arch transformer_small and fairseq's transformer_tiny.
register_model_architecture("transformer_gated_adapter", "transformer_gated_adapter_small")(small_architecture)
register_model_architecture("transformer_gated_adapter", "transformer_gated_adapter_tiny")(tiny_architecture)
