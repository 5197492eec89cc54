"""GAD: gated adapters (Klimaszewski et al. 2023). Learned gates mix the adapters of all domains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in, option
from fairseq_ext.models.adapter_transformer import (
    AdapterTransformerModel,
    TranslationAdapterConfig,
    register_sizes,
)
from fairseq_ext.modules.adapter_names import GUARDED, keep_names, read_names
from fairseq_ext.modules.routers import GateRouter, RoutingBatch
from fairseq_ext.modules.source_gate import SourceGate

ALL_GATES = "all"  # value of --train-gates
STATES, SOURCE, ENCODER = "states", "source", "encoder"  # values of --gate-inputs


@dataclass
class GatedAdapterConfig(TranslationAdapterConfig):
    """Options of the gates."""

    gate_temperature: float = option(
        2.0, "beta: routing weights are softmax(gate logits / beta) (default: 2.0, the paper's)"
    )
    gate_inputs: str = option(
        "states",
        "inputs of gates, separated by commas: states (the mean of the layer's states, the paper's), source "
        "(a bag of the source's subwords and pairs of them), encoder (for decoder gates, the logits of the last "
        "encoder gate) (default: states)",
    )
    gate_pairs: int = option(
        65536,
        "with --gate-inputs source: number of columns into which pairs of neighbouring subwords are hashed; 0 for "
        "no pairs (default: 65536)",
    )
    gate_base: bool = option(
        False,
        "give the gates one more output, the base model without an adapter, which they learn from general text in the "
        "sub-directory base of the data (default: adapters only)",
    )
    gate_top_k: int = option(
        0,
        "number of adapters to compute, those with a gate's largest weights, in training and inference; "
        "the kept weights are renormalised to sum to one (default: 0, all)",
    )
    train_gates: str = option(
        "",
        "train only the gates' rows of these domains, separated by commas, or all; other rows and the "
        "adapters stay unchanged, bit for bit (default: train gates and adapters)",
    )


def gate_inputs(config: GatedAdapterConfig) -> frozenset[str]:
    names = frozenset(names_in(config.gate_inputs))
    if names - {STATES, SOURCE, ENCODER} or not names & {STATES, SOURCE}:
        raise InputError(
            f"--gate-inputs {config.gate_inputs}: give {STATES}, {SOURCE} or both, optionally with {ENCODER}"
        )
    return names


@register_model("transformer_gated_adapter")
class TransformerGatedAdapterModel(AdapterTransformerModel):
    """Gates compute the weight of each domain's adapter from the hidden states (Eq. 2-3).

    No domain is needed; if one is forced, its adapter is used instead of the gates. Train with
    ``label_smoothed_cross_entropy_with_kd_gate``. Checkpoints store the names of guarded adapters, if any
    (:class:`~fairseq_ext.modules.routers.GateRouter`).

    Attributes:
        trained_gate_rows: rows of the gates that are trained.
    """

    config_class = GatedAdapterConfig
    needs_domains = False
    trained_gate_rows: list[int]

    def add_adapters(self, config: Any, names: Sequence[str]) -> None:
        super().add_adapters(config, names)
        self._add_source_gate(config, len(names))
        wanted = names_in(config.train_gates)
        for name in wanted:
            check_choice(name, (*names, ALL_GATES), "--train-gates")
        are_all = not wanted or ALL_GATES in wanted
        self.trained_gate_rows = [row for row, name in enumerate(names) if are_all or name in wanted]
        for bank in self.banks if wanted else ():
            bank.requires_grad_(False)
        for gate in self._readers:
            if gate.base_weight is not None:
                gate.base_weight.requires_grad_(are_all)

    def _add_source_gate(self, config: GatedAdapterConfig, num_adapters: int) -> None:
        """Add the source gate to the encoder, and pass encoder logits to the decoder, as ``--gate-inputs`` says."""
        inputs = gate_inputs(config)
        self.encoder.tells_decoder = ENCODER in inputs
        if SOURCE in inputs:
            dictionary = self.encoder.dictionary
            gate = SourceGate(
                len(dictionary),
                num_adapters,
                config.gate_pairs,
                ignored=(dictionary.pad(), dictionary.eos()),
                dropout=self.encoder.cfg.dropout,
                has_base=config.gate_base,
            )
            self.encoder.adapter = nn.ModuleDict({"router": gate})

    @property
    def gates(self) -> list[GateRouter]:
        """The gates of all layers, the encoder's first."""
        return [layer.adapter.router for stack in (self.encoder, self.decoder) for layer in stack.layers.children()]

    @property
    def gate_parameters(self) -> list[nn.Parameter]:
        """The weights of all gates, with one row per adapter."""
        return [gate.weight for gate in self._readers if gate.weight is not None]

    @property
    def _readers(self) -> list[Any]:
        """The gates of all layers and that on the source's words."""
        return [*self.gates, *([self.encoder.source_gate] if self.encoder.source_gate else [])]

    @property
    def learns_base(self) -> bool:
        """Whether the gates learn to choose the base alone, for which they need general text."""
        return any(each.base_weight is not None and each.base_weight.requires_grad for each in self._readers)

    def guard(self, names: Sequence[str]) -> None:
        """Use these adapters only where their logit is the highest, and store their names in checkpoints."""
        for gate in self.gates:
            gate.guarded = tuple(sorted(self.adapter_names.index(name) for name in names))
        keep_names(self.decoder, names, GUARDED)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        super().upgrade_state_dict_named(state_dict, name)
        self.guard(read_names(state_dict[GUARDED], GUARDED) if GUARDED in state_dict else [])

    def build_router(self, config: Any, embed_dim: int, num_adapters: int, causal: bool) -> GateRouter:
        reads_states = STATES in gate_inputs(config)
        size = (embed_dim, num_adapters)
        return GateRouter(*size, config.gate_temperature, causal, config.gate_top_k, reads_states, config.gate_base)

    @torch.no_grad()
    def gate_weights(self, net_input: dict, prev_output_tokens: Tensor) -> dict[str, Tensor]:
        """Return the routing weights used in every layer, in the decoder averaged over the target positions.

        For gates with several inputs, also return the weights that each input would give alone: ``source`` for the
        source's words, ``encoder_states`` and ``decoder_states`` for the states of each layer.

        Shape:
            prev_output_tokens: B×T; result: encoder B×L×D; decoder B×L×D; tokens B×T×D, the decoder's averaged over
            layers instead of positions; source B×1×D; encoder_states, decoder_states: B×L×D; rows sum to one, or
            to less if the base has a share
        """
        encoder_out = self.encoder(**{k: v for k, v in net_input.items() if k != "prev_output_tokens"})
        _, extra = self.decoder(prev_output_tokens, encoder_out=encoder_out, features_only=True)
        gates = extra["gate_logits"]
        gate = self.gates[0]  # all gates compute weights alike
        encoder, decoder = (torch.stack(gates[side], dim=1) for side in ("encoder", "decoder"))  # B×L×D, B×L×T×D
        is_token = prev_output_tokens.ne(self.decoder.padding_idx)[:, None, :, None]

        def means(logits: Tensor) -> Tensor:
            return (gate.weights(logits) * is_token).sum(2) / is_token.sum(2)

        sides = {"encoder": gate.weights(encoder), "decoder": means(decoder), "tokens": gate.weights(decoder).mean(1)}
        parts: dict[str, Tensor] = {}
        source, told = self.encoder.source_gate, encoder_out["routing"].known_logits
        known = None if source is None else source(net_input["src_tokens"]).transpose(0, 1)  # B×1×D
        if known is not None:
            parts["source"] = gate.weights(known)
        if gate.weight is not None and told is not None:
            parts["encoder_states"] = gate.weights(encoder if known is None else encoder - known)
            parts["decoder_states"] = means(decoder - told.transpose(0, 1).unsqueeze(1))
        is_forced = net_input.get("is_forced")
        given = self.encoder.given_weights(net_input.get("domain_ids"), is_forced)
        batch = RoutingBatch(given_weights=given, is_forced=is_forced)
        used = {side: batch.force(weights.transpose(0, 1)).transpose(0, 1) for side, weights in sides.items()}
        return used | parts


register_sizes("transformer_gated_adapter")
