"""Base of both adapter models for translation: a frozen Transformer with banks of adapters in every layer."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model_architecture
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase, TransformerEncoderBase
from fairseq.models.transformer.transformer_legacy import TransformerModel, base_architecture, tiny_architecture
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in, option
from fairseq_ext.models.base_layout import FORM_OPTIONS, LORA, sized_by_base
from fairseq_ext.models.checkpoints import add_fresh_adapters
from fairseq_ext.models.presets import RANDOM_BASE, SMALL, of_side, register_presets, sized
from fairseq_ext.modules.adapter_bank import AdapterBank, Bank
from fairseq_ext.modules.adapter_names import keep_names, match_rows
from fairseq_ext.modules.freezing import FrozenBase, freeze_base
from fairseq_ext.modules.lora import PLACES, LayerRouter, LoraAdapter, LoraBank, lora_places
from fairseq_ext.modules.post_layer_adapter import PostLayerAdapter, routing
from fairseq_ext.modules.routers import RoutingBatch
from fairseq_ext.modules.source_gate import SourceGate
from fairseq_ext.modules.transformer_options import SSRU

# Used as a domain's index for sentences that use the base model alone.
NO_ADAPTER = -1
# Inputs of a batch about the domains of its rows.
_ROUTES = ("domain_ids", "is_forced", "domain_weights")


@dataclass
class AdapterConfig(FairseqDataclass):
    """Options of every adapter model, in addition to fairseq's options of the Transformer."""

    bottleneck_dim: int = option(0, "bottleneck dimension of an adapter; 0 for half the model dimension (default: 0)")
    adapter_init_scale: float = option(
        0.01,
        "standard deviation of the down projections at initialisation, truncated at two standard deviations; "
        "the up projections start at zero, so that the model starts as its base (default: 0.01)",
    )
    frozen_mode: ChoiceEnum(["eval", "train"]) = option(  # type: ignore[valid-type]
        "train",
        "mode of the frozen base while the adapters train: with dropout (train) or without (eval) (default: train)",
    )
    random_base: bool = RANDOM_BASE

    @classmethod
    def from_args(cls, args: Namespace) -> Self:
        """Read the options from fairseq's namespace; missing ones take their defaults."""
        return cls(**{f.name: getattr(args, f.name, f.default) for f in fields(cls) if not f.name.startswith("_")})


@dataclass
class TranslationAdapterConfig(AdapterConfig):
    """Options of the adapters in translation models."""

    adapter_form: ChoiceEnum(["bottleneck", "lora"]) = option(  # type: ignore[valid-type]
        FORM_OPTIONS["adapter_form"],
        "type of adapters: bottleneck (after every layer's feed-forward block) or lora (low-rank "
        "updates of the linear layers of --lora-modules) (default: bottleneck)",
    )
    adapter_dropout: float = option(
        0.0, "dropout on an adapter's output before the residual, or on the input of a LoRA adapter (default: 0)"
    )
    lora_rank: int = option(FORM_OPTIONS["lora_rank"], "rank of a LoRA adapter (default: 8)")
    lora_alpha: float = option(
        FORM_OPTIONS["lora_alpha"], "alpha: a LoRA adapter's output is scaled by alpha / rank (default: 16)"
    )
    lora_modules: str = option(
        FORM_OPTIONS["lora_modules"],
        "linear layers with LoRA, separated by commas: q, k, v and out of the self-attention (q and out "
        "also of the cross-attention), forget and candidate of an SSRU, fc1 and fc2 of the feed-forward block "
        "(default: q,v)",
    )

    def lora_names(self) -> list[str]:
        """Return the kinds of linear layers with LoRA."""
        names = names_in(self.lora_modules)
        for name in names or [self.lora_modules]:
            check_choice(name, tuple(PLACES), "--lora-modules")
        return list(dict.fromkeys(names))


class AdapterEncoder(TransformerEncoderBase):
    """A Transformer encoder whose layers have adapters; its output includes the routing inputs of the decoder.

    Attributes:
        needs_given: whether the routers need the weights of given domains.
        source_gate: gate over the source's words, shared by all gates; None if they do not use it.
        tells_decoder: whether decoder gates get the logits of the last encoder gate.
    """

    num_adapters: int
    needs_given: bool
    tells_decoder = False

    @property
    def source_gate(self) -> SourceGate | None:
        return self.adapter["router"] if hasattr(self, "adapter") else None

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        domain_ids: Tensor | None = None,
        is_forced: Tensor | None = None,
        domain_weights: Tensor | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Encode the source, and add a :class:`RoutingBatch` to the result, ``routing``, with the decoder's inputs.

        Shape:
            src_tokens: B×S; domain_ids: B; is_forced: B; domain_weights: B×D
        """
        given = self.given_weights(domain_ids, is_forced, domain_weights)
        known = None if self.source_gate is None else self.source_gate(src_tokens)
        most_given = 1 if domain_weights is None else domain_weights.size(1)
        batch = RoutingBatch(src_tokens.eq(self.padding_idx), given, most_given, is_forced, known_logits=known)
        with routing(batch):
            out = super().forward(src_tokens, src_lengths, **kwargs)
        if self.tells_decoder:
            batch.known_logits = batch.gate_logits[-1]
        return {**out, "routing": batch}

    def given_weights(
        self, domain_ids: Tensor | None, is_forced: Tensor | None = None, domain_weights: Tensor | None = None
    ) -> Tensor | None:
        """Return one-hot routing weights of domains, all zero for ``NO_ADAPTER``; None if they are unknown or unused.

        Given ``domain_weights`` are returned unchanged if the routers need them.

        Shape:
            domain_ids, is_forced: B; domain_weights, result: B×D
        """
        if domain_weights is not None and self.needs_given:
            return domain_weights
        if domain_ids is None or not (self.needs_given or is_forced is not None):
            return None
        one_hot = F.one_hot(domain_ids.clamp(min=0), self.num_adapters)
        return (one_hot * domain_ids.ne(NO_ADAPTER).unsqueeze(1)).float()

    def reorder_encoder_out(self, encoder_out: dict[str, Any], new_order: Tensor) -> dict[str, Any]:
        out = super().reorder_encoder_out(encoder_out, new_order)
        return {**out, "routing": encoder_out["routing"].reordered(new_order)}


class AdapterDecoder(TransformerDecoderBase):
    """A Transformer decoder whose layers have adapters; the encoder's output contains the domains."""

    def extract_features(  # type: ignore[override]
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, Any] | None = None,
        incremental_state: dict | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute the features of tokens B×T. ``gate_logits`` in the extras: encoder L × (B×D), decoder L × (B×T×D)."""
        told = encoder_out["routing"] if encoder_out else RoutingBatch(most_given=1)
        # Cached decoding computes only the last position, which is never padding.
        padding_mask = prev_output_tokens.eq(self.padding_idx) if incremental_state is None else None
        batch = told.of_decoder(padding_mask, incremental_state)
        with routing(batch):
            x, extra = super().extract_features(prev_output_tokens, encoder_out, incremental_state, **kwargs)
        extra["gate_logits"] = {
            "encoder": [logits.squeeze(0) for logits in told.gate_logits],
            "decoder": [logits.transpose(0, 1) for logits in batch.gate_logits],
        }
        return x, extra

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute scores of tokens: B×T×H → B×T×V."""
        return multiply_without_time(super().output_layer, features)


def multiply_without_time(output_layer: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
    """Apply an output layer to B×T×H as N×H; result: B×T×V."""
    # The strides of a single position make torch multiply frozen embeddings sentence by sentence;
    # without the time dimension it is one product. Decoding is three times faster (CPU, V = 32,000).
    return output_layer(features.flatten(0, 1)).unflatten(0, features.shape[:2])


class AdapterTransformerModel(FrozenBase, TransformerModel):
    """A frozen Transformer with banks of domain adapters in every layer.

    Subclasses choose the router. State-dict keys of the base are unchanged, so that training can start from any
    plain ``transformer`` checkpoint of the same size (``--finetune-from-model``).
    """

    config_class = TranslationAdapterConfig
    needs_domains: bool  # whether forward needs the domain of every sentence
    adapter_names: list[str]  # names of the rows of every bank

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        super().add_args(parser)
        # No argparse defaults: they would override the values of architecture presets.
        gen_parser_from_dataclass(parser, cls.config_class(), delete_default=True)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Embedding) -> AdapterEncoder:
        return AdapterEncoder(TransformerConfig.from_namespace(args), src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> AdapterDecoder:
        config = TransformerConfig.from_namespace(args)
        return AdapterDecoder(config, tgt_dict, embed_tokens, no_encoder_attn=config.no_cross_attention)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> "AdapterTransformerModel":
        if getattr(args, "checkpoint_activations", False):
            # Layers would be recomputed without their batch, and gate logits would have no gradients.
            raise InputError("--checkpoint-activations cannot be used with adapters; remove it")
        args.adapter_names = adapter_names(args, task)
        model = super().build_model(args, task)
        model.add_adapters(cls.config_class.from_args(args), args.adapter_names)
        return model

    @classmethod
    def from_pretrained(cls, *args: Any, **options: Any) -> Any:
        """Load a :class:`~fairseq_ext.models.hub_interface.DomainTranslator`."""
        from fairseq_ext.models.hub_interface import DomainTranslator

        return DomainTranslator.from_pretrained(*args, **options)

    def add_adapters(self, config: TranslationAdapterConfig, names: Sequence[str]) -> None:
        """Attach adapters with these names to every layer and freeze the rest."""
        if str(config.adapter_form) == LORA:
            self._check_places(config.lora_names())
        self.adapter_names, num_adapters = list(names), len(names)
        self.encoder.num_adapters, self.encoder.needs_given = num_adapters, self.needs_domains
        keep_names(self.decoder, names)
        for stack, causal in ((self.encoder, False), (self.decoder, True)):
            embed_dim = stack.embed_tokens.embedding_dim if not causal else stack.embed_dim
            for layer in stack.layers.children():
                router = self.build_router(config, embed_dim, num_adapters, causal)
                if str(config.adapter_form) == LORA:
                    _attach_lora(layer, router, num_adapters, config)
                    continue
                bottleneck_dim = config.bottleneck_dim or embed_dim // 2
                bank = AdapterBank(embed_dim, bottleneck_dim, num_adapters, config.adapter_init_scale)
                PostLayerAdapter(bank, router, config.adapter_dropout).attach(layer)
        self.frozen_mode = str(config.frozen_mode)
        freeze_base(self)

    def _check_places(self, names: Sequence[str]) -> None:
        """Check that the base has layers of every kind that LoRA adapts."""
        for name in names:
            if not any(lora_places(layer, [name]) for side in (self.encoder, self.decoder) for layer in side.layers):
                raise InputError(f"--lora-modules {name}: the base has no such layer; remove {name}")

    @property
    def banks(self) -> list[Bank]:
        """The banks of all layers, the encoder's first."""
        return [module for module in self.modules() if isinstance(module, Bank)]

    def build_router(self, config: Any, embed_dim: int, num_adapters: int, causal: bool) -> nn.Module:
        """Return the router of a layer of the encoder or the (``causal``) decoder."""
        raise NotImplementedError

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        domain_ids: Tensor | None = None,
        is_forced: Tensor | None = None,
        domain_weights: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Run the model. ``is_forced`` marks the sentences that use their domain's adapter instead of gates.

        Shape:
            src_tokens: B×S; prev_output_tokens: B×T; domain_ids: B; is_forced: B; domain_weights: B×D, weights of plain
            adapters, used instead of ``domain_ids``; logits: B×T×V
        """
        encoder_out = self.encoder(
            src_tokens, src_lengths, domain_ids=domain_ids, is_forced=is_forced, domain_weights=domain_weights
        )
        return self.decoder(prev_output_tokens, encoder_out=encoder_out, **kwargs)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        super().upgrade_state_dict_named(state_dict, name)
        match_rows(self, state_dict, self.adapter_names, "the data's domains.txt")
        add_fresh_adapters(self, state_dict)


def _attach_lora(layer: nn.Module, router: nn.Module, num_adapters: int, config: TranslationAdapterConfig) -> None:
    LayerRouter(router).attach(layer)
    for linear in lora_places(layer, config.lora_names()):
        size = (linear.in_features, linear.out_features, config.lora_rank, num_adapters)
        bank = LoraBank(*size, config.lora_alpha, config.adapter_init_scale)
        LoraAdapter(bank, config.adapter_dropout).attach(linear)
    for attention in (module for module in layer.children() if isinstance(module, MultiheadAttention)):
        attention.skip_embed_dim_check = True  # otherwise fairseq passes the weights to torch directly, without hooks


def ignore_domains(model: Any) -> None:
    """Let a plain Transformer ignore routing inputs, for ensembles with models that route by domain."""
    for module in (model, model.encoder):
        module.register_forward_pre_hook(_without_domains, with_kwargs=True)


def _without_domains(_module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    return args, {name: value for name, value in kwargs.items() if name not in _ROUTES}


def adapter_names(args: Namespace, task: Any) -> list[str]:
    """Return the adapters' names: those of the checkpoint, if any, or else the task's domains."""
    saved = getattr(args, "adapter_names", None)
    domains = getattr(task, "domains", None)
    if saved is None and domains is None:
        raise InputError("adapters need domains, which this task does not have; use --task multi_domain_translation")
    if saved is not None and domains is not None and list(saved) != list(domains):
        raise InputError(
            f"the checkpoint's adapters are {list(saved)}, but the data's domains are {list(domains)}; use the data of "
            "its training"
        )
    return list(saved or domains)


# For two CPU cores: 3+2 pre-norm layers, model dimension 192, all embeddings tied.
small_architecture = sized(
    base_architecture,
    **of_side("encoder", {**SMALL, "layers": 3, "normalize_before": True}),
    **of_side("decoder", {"layers": 2, "attention_heads": 4, "normalize_before": True}),
    share_all_embeddings=True,
)
register_presets("transformer", small=small_architecture, ssru=sized(base_architecture, autoregressive_layer=SSRU))


def register_sizes(model: str) -> None:
    """Register an adapter model with the size of its base checkpoint, and presets whose size the base must have.

    Without a base checkpoint, the first has the paper's size: Transformer base, 6+6 layers, 512/2048/8.
    """
    register_model_architecture(model, model)(sized_by_base(base_architecture))
    sizes = {"small": small_architecture, "tiny": tiny_architecture}
    register_presets(model, **{name: sized_by_base(preset, takes_all=False) for name, preset in sizes.items()})
