"""Hierarchical adapters for language models: one adapter per node of a domain tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq.dataclass import ChoiceEnum
from fairseq.models import ARCH_CONFIG_REGISTRY, FairseqIncrementalDecoder, register_model
from fairseq.models.transformer import TransformerDecoder
from fairseq.models.transformer_lm import (
    TransformerLanguageModel,
    TransformerLanguageModelConfig,
    base_lm_architecture,
    transformer_lm_gpt,
)
from torch import Tensor

from fairseq_ext.base.domain_tree import DomainTree, multi_tree, read_tree, single_tree, tree_from_json
from fairseq_ext.base.errors import InputError, check_choice
from fairseq_ext.base.option import names_in, option
from fairseq_ext.models.adapter_transformer import AdapterConfig, multiply_without_time
from fairseq_ext.models.base_layout import OF_DECODER, sized_by_base
from fairseq_ext.models.causal_lm import BaseModelConfig, BlockAdapter, CausalDecoder, note_base
from fairseq_ext.models.checkpoints import add_fresh_adapters
from fairseq_ext.models.presets import SMALL, TINY, of_side, register_presets, sized
from fairseq_ext.modules.adapter_names import keep_names, match_rows
from fairseq_ext.modules.causal_models import read_causal_config
from fairseq_ext.modules.freezing import FrozenBase, freeze_base
from fairseq_ext.modules.language_model_options import ADAPTERS, HIERARCHICAL_ADAPTERS, LANGUAGE_MODELING_TASK
from fairseq_ext.modules.node_bank import NodeBank
from fairseq_ext.modules.post_layer_adapter import PostLayerAdapter, ThreadValue, routing
from fairseq_ext.modules.routers import GivenRouter, RoutingBatch, most_chosen

_weights: ThreadValue[Tensor] = ThreadValue()
# `with node_weights_of(rows):` uses these weights, B×N or 1×N, in the model.
node_weights_of = _weights.during


@dataclass
class HierAdapterConfig(BaseModelConfig, AdapterConfig, TransformerLanguageModelConfig):
    """Options of the hierarchical adapters and their baselines."""

    tree: str = option("", "domain tree (JSON file); stored in checkpoints (default: none)")
    adapters: ChoiceEnum(list(ADAPTERS)) = option(  # type: ignore[valid-type]
        ADAPTERS[0],
        "one adapter per node of --tree (tree), one per domain (single), or one for all domains, with a "
        "bottleneck as large as those on an average path of --tree together (multi) (default: tree)",
    )
    train_nodes: str = option(
        "",
        "nodes to train, separated by commas; all other nodes and the shared layer norms stay unchanged, "
        "bit for bit (default: all nodes)",
    )
    adapted_layers: int = option(
        0, "number of last layers that get adapters; lower ones take less time and memory to train (default: 0, all)"
    )
    tree_json: str = option("", "contents of the tree, for checkpoints; use --tree instead (default: none)")


class PathWeights(FairseqIncrementalDecoder):
    """A decoder with a bank of adapters in each layer, weighted by row. Mixin, to precede the decoder in the bases."""

    _STATE = "node_weights"

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: dict | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute the features of tokens: B×T → B×T×H."""
        weights, most = self._node_weights(prev_output_tokens, incremental_state)
        with routing(RoutingBatch(given_weights=weights, most_given=most)):
            features: tuple[Tensor, dict[str, Any]] = super().extract_features(
                prev_output_tokens, None, incremental_state, **kwargs
            )
        return features

    def _node_weights(self, tokens: Tensor, incremental_state: dict | None) -> tuple[Tensor, int]:
        """Return the rows' weights and the maximum number of nonzero weights in a row; constant during generation."""
        state = {} if incremental_state is None else incremental_state
        if self._STATE not in state:
            if _weights.value is None:
                raise InputError("these adapters need a domain; give --domain or --paths")
            weights = _weights.value.to(tokens.device)
            if 1 < len(weights) < len(tokens):  # hypotheses of a sentence are adjacent
                weights = weights.repeat_interleave(len(tokens) // len(weights), dim=0)
            state[self._STATE] = {"weights": weights, "most": most_chosen(weights)}
        return state[self._STATE]["weights"], state[self._STATE]["most"]

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorder the weights with the beam."""
        super().reorder_incremental_state(incremental_state, new_order)
        saved = incremental_state.get(self._STATE)
        if saved is not None and len(saved["weights"]) > 1:
            incremental_state[self._STATE] = saved | {"weights": saved["weights"].index_select(0, new_order)}

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute scores of tokens: B×T×H → B×T×V."""
        return multiply_without_time(super().output_layer, features)


class PathDecoder(PathWeights, TransformerDecoder):
    """fairseq's decoder."""


class CausalPathDecoder(PathWeights, CausalDecoder):
    """A base of Hugging Face."""


@register_model(HIERARCHICAL_ADAPTERS, dataclass=HierAdapterConfig)
class TransformerLMHierAdapterModel(FrozenBase, TransformerLanguageModel):
    """A frozen language model with a bank after every layer, with one adapter per node of a domain tree (§2.3).

    The weights of a row are those of one or several paths in the tree (:meth:`DomainTree.path_weights`). All adapters
    of a layer share a layer norm. The paper's baselines, single adapters and one multi-domain adapter, are the same
    model with other trees.

    Attributes:
        tree: domain tree, whose nodes are the rows of every bank.
    """

    tree: DomainTree

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "TransformerLMHierAdapterModel":
        if getattr(cfg, "checkpoint_activations", False):
            # Layers would be recomputed without their batch.
            raise InputError("--checkpoint-activations cannot be used with adapters; remove it")
        note_base(cfg)
        embed_tree(cfg, getattr(task, "domains", []))
        if cfg.base_model:
            model = cls(CausalPathDecoder.load(cfg, task.target_dictionary))
        else:
            model = super().build_model(cfg, task)
            # Keep the embeddings that fairseq built from the options, and replace only the stack of layers.
            embed_tokens = model.decoder.embed_tokens
            model.decoder = PathDecoder(cfg, task.target_dictionary, embed_tokens, no_encoder_attn=True)
        model.add_adapters(cfg)
        return model

    def add_adapters(self, cfg: HierAdapterConfig) -> None:
        """Attach a bank to every layer, or the last ones, and freeze the rest."""
        self.tree = tree = tree_from_json(cfg.tree_json, "the model's tree")
        size = (self.decoder.embed_dim, cfg.bottleneck_dim, len(tree.names))
        kind = BlockAdapter if cfg.base_model else PostLayerAdapter
        layers = list(self.decoder.layers.children())
        if not 0 <= cfg.adapted_layers <= len(layers):
            raise InputError(f"--adapted-layers {cfg.adapted_layers}: the base has {len(layers)} layers")
        for layer in layers[-cfg.adapted_layers :]:
            kind(NodeBank(*size, cfg.adapter_init_scale), GivenRouter(gathers=True)).attach(layer)
        keep_names(self.decoder, tree.names)
        self.frozen_mode = str(cfg.frozen_mode)
        freeze_base(self)
        wanted = names_in(cfg.train_nodes)
        for bank in self.banks if wanted else ():
            bank.requires_grad_(False)
            for name in wanted:
                check_choice(name, tree.names, "--train-nodes")
                for parameter in bank.node_parameters(tree.names.index(name)):
                    parameter.requires_grad_(True)

    @property
    def banks(self) -> list[NodeBank]:
        """The banks of the adapted layers, in order."""
        return [layer.adapter.bank for layer in self.decoder.layers.children() if hasattr(layer, "adapter")]

    def forward(  # type: ignore[override]
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, node_weights: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute scores from tokens B×T and weights B×N, rows sum to one or are all zero (no adapter) → B×T×V.

        Without weights, those of an enclosing ``node_weights_of`` are used, as for typed text.
        """
        with node_weights_of(_weights.value if node_weights is None else node_weights):
            out: tuple[Tensor, dict[str, Any]] = self.decoder(src_tokens, **kwargs)
        return out

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        super().upgrade_state_dict_named(state_dict, name)
        match_rows(self, state_dict, self.tree.names, "the tree", may_grow=True)
        add_fresh_adapters(self, state_dict)


def embed_tree(cfg: Any, domains: Sequence[str]) -> None:
    """Store the tree and the adapters' bottleneck dimension, which depends on it, in the options, in place.

    The model can then be built from a checkpoint alone. Options that already contain a tree are unchanged.
    """
    if cfg.tree_json:
        return
    tree = read_tree(Path(cfg.tree)) if cfg.tree else None
    kind = str(cfg.adapters)
    width = cfg.bottleneck_dim or _embed_dim(cfg) // 2
    if kind == "multi" and tree:
        width = round(width * tree.mean_path_length)
    if kind != "tree":
        tree = _baseline(kind, sorted(tree.domains) if tree else domains)
    if tree is None:
        raise InputError("--adapters tree needs a domain tree; give --tree FILE.json")
    cfg.bottleneck_dim, cfg.tree_json = width, tree.to_json()


def _embed_dim(cfg: Any) -> int:
    return int(read_causal_config(Path(cfg.base_model)).hidden_size if cfg.base_model else cfg.decoder_embed_dim)


def _baseline(kind: str, domains: Sequence[str]) -> DomainTree:
    if not domains:
        raise InputError(f"--adapters {kind} needs domains; give --tree, or train with --task {LANGUAGE_MODELING_TASK}")
    return single_tree(domains) if kind == "single" else multi_tree(domains)


_TIED = {"share_decoder_input_output_embed": True}
# The paper's size, that of GPT-2 small: 12 layers, 768/3072/12, learned positions, tied embeddings.
gpt2_architecture = sized(
    transformer_lm_gpt, decoder_learned_pos=True, no_scale_embedding=True, activation_fn="gelu_accurate", **_TIED
)
small_architecture = sized(base_lm_architecture, activation_fn="gelu", **of_side("decoder", SMALL), **_TIED)
tiny_architecture = sized(base_lm_architecture, **of_side("decoder", TINY), **_TIED)
register_presets("transformer_lm", small=small_architecture, tiny=tiny_architecture)


def register_language_model_sizes(model: str) -> None:
    """Let a model take the size of its base checkpoint, and register presets whose size the base must have."""
    sizes = {"gpt2": gpt2_architecture, "small": small_architecture, "tiny": tiny_architecture}
    presets = {name: sized_by_base(preset, takes_all=False, names=OF_DECODER) for name, preset in sizes.items()}
    register_presets(model, **presets)
    ARCH_CONFIG_REGISTRY[model] = sized_by_base(lambda args: None, names=OF_DECODER)


register_language_model_sizes(HIERARCHICAL_ADAPTERS)
