"""Causal language models of Hugging Face as fairseq's, for evaluation and as frozen bases.

Attention, positions, norms and the cache are those of transformers. The rows of the embeddings are put in the order of
fairseq's dictionary once, when a model is loaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import ARCH_CONFIG_REGISTRY, FairseqIncrementalDecoder, FairseqLanguageModel, register_model
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from torch import Tensor, nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.option import option
from fairseq_ext.models.base_layout import BASE_MODEL, sized_by_base
from fairseq_ext.modules.causal_models import (
    are_alike,
    blocks_of,
    load_causal_model,
    longest_text,
    new_cache,
    next_states,
    scores_of,
    tokenizer_of,
)
from fairseq_ext.modules.freezing import FrozenBase
from fairseq_ext.modules.language_model_options import CAUSAL_LM
from fairseq_ext.modules.post_layer_adapter import PostLayerAdapter
from fairseq_ext.modules.pretrained import GGUF
from fairseq_ext.text.model_tokenizer import ModelTokenizer

_CACHE = "causal_lm_cache"  # entry of the incremental state: the cache and the number of its tokens
_CHECKED_TOKENS = 8
_SPECIAL = 4  # symbols that begin every dictionary


@dataclass
class BaseModelConfig(FairseqDataclass):
    """Options of a base of Hugging Face."""

    base_model: str = option(
        "",
        "folder (config.json and safetensors) or GGUF file of a causal language model of Hugging Face as the frozen "
        "base; checkpoints contain only what is trained (default: a language model of fairseq)",
    )
    base_precision: ChoiceEnum(["float32", "bfloat16"]) = option(  # type: ignore[valid-type]
        "float32", "precision of the base's weights and states (default: float32)"
    )
    base_sha256: str = option("", "checksum of the base, for checkpoints (default: none)")


class CausalDecoder(FairseqIncrementalDecoder):
    """A causal language model of Hugging Face with the interface of fairseq's decoder.

    Args:
        dictionary: symbols of the model, see :mod:`fairseq_ext.text.model_tokenizer`.
        base: the model, with rows in the order of the dictionary.

    Attributes:
        layers: Transformer blocks.
        embed_dim: H, width of the hidden states.
    """

    def __init__(self, dictionary: Dictionary, base: Any):
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_dim: int = base.config.hidden_size
        self._base_names = frozenset(f"base.{name}" for name in base.state_dict())
        self.base = base

    @classmethod
    def load(cls, cfg: Any, dictionary: Dictionary) -> Self:
        """Load the base that the options name."""
        path = Path(cfg.base_model)
        _refuse_sizes(cfg)
        base = load_causal_model(path, getattr(torch, str(cfg.base_precision)))
        order = order_of(ModelTokenizer(tokenizer_of(path), path), base.config)
        _check_dictionary(dictionary, order, path)
        _reorder(base, order, path)
        return cls(dictionary, base)

    @property
    def layers(self) -> nn.ModuleList:
        return blocks_of(self.base)

    @property
    def output_projection(self) -> Any:
        return self.base.get_output_embeddings()

    def forward(  # type: ignore[override]
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute scores, or features: B×T → B×T×V or B×T×H; only new positions with an incremental state."""
        features, extra = self.extract_features(prev_output_tokens, None, incremental_state)
        return (features if features_only else self.output_layer(features)), extra

    def extract_features(
        self, prev_output_tokens: Tensor, encoder_out: Any = None, incremental_state: dict | None = None, **kwargs: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute the features of tokens: B×T → B×T×H. Padding must follow the text."""
        cache, length = None, 0
        if incremental_state is not None:
            cache, length = incremental_state.get(_CACHE) or (new_cache(self.base), 0)
            incremental_state[_CACHE] = cache, prev_output_tokens.size(1)
        tokens = prev_output_tokens[:, length:]
        # Behind a first text, recurrent layers take one token at a time.
        parts = tokens.split(1 if length else tokens.size(1), 1)
        states = torch.cat([next_states(self.base, part, cache) for part in parts], 1)
        return states, {"attn": None}  # which fairseq's search asks for

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute scores of tokens: B×T×H → B×T×V."""
        return scores_of(self.base, features)

    def reorder_incremental_state(self, incremental_state: dict, new_order: Tensor) -> None:
        """Reorder the cache with the beam."""
        if _CACHE in incremental_state:
            incremental_state[_CACHE][0].reorder_cache(new_order)

    def max_positions(self) -> int:
        return longest_text(self.base.config)

    # Checkpoints have no frozen weights of the base, which its own files contain.

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> Any:
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        for name in self._frozen_names():
            state.pop(f"{prefix}{name}", None)
        return state

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        current = super().state_dict()
        state_dict.update({f"{prefix}{name}": current[name] for name in self._frozen_names()})
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _frozen_names(self) -> list[str]:
        trained = {name for name, p in self.named_parameters(remove_duplicate=False) if p.requires_grad}
        return [name for name in self._base_names if name not in trained]


class BlockAdapter(PostLayerAdapter):
    """A bank and its router behind a block of Hugging Face, whose states are B×T×H in the precision of the base."""

    def attach(self, layer: Any) -> None:
        layer.adapter = self
        layer.register_forward_hook(self._after_layer)

    def forward(self, x: Tensor) -> Tensor:
        dtype = next(self.bank.parameters()).dtype
        return super().forward(x.transpose(0, 1).to(dtype)).transpose(0, 1).to(x.dtype)


@dataclass
class CausalLMConfig(BaseModelConfig):
    """Options of a plain language model of Hugging Face."""

    train_blocks: int = option(0, "number of last blocks to train; the rest stays frozen (default: 0)")


@register_model(CAUSAL_LM, dataclass=CausalLMConfig)
class CausalLMModel(FrozenBase, FairseqLanguageModel):
    """A causal language model of Hugging Face, frozen except for its last blocks."""

    decoder: CausalDecoder

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "CausalLMModel":
        if not cfg.base_model:
            raise InputError("--base-model: is missing; give the folder or GGUF file of a causal language model")
        note_base(cfg)
        model = cls(CausalDecoder.load(cfg, task.target_dictionary))
        layers = list(model.decoder.layers)
        if not 0 <= cfg.train_blocks <= len(layers):
            raise InputError(f"--train-blocks {cfg.train_blocks}: the model has {len(layers)} blocks")
        for layer in layers[len(layers) - cfg.train_blocks :]:
            layer.requires_grad_(True)
        return model

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Take the base's own blocks for a checkpoint without weights."""
        super().upgrade_state_dict_named(state_dict, name)
        if not state_dict:
            state_dict.update(self.state_dict())


def note_base(cfg: Any) -> None:
    """Store the checksum of the base in the options, in place, or compare it with the one of a checkpoint."""
    if not getattr(cfg, "base_model", ""):
        return
    path = Path(cfg.base_model)
    is_elsewhere = bool(cfg.base_sha256) and not path.exists()
    checksum = "" if is_elsewhere else checksum_of(path)
    if cfg.base_sha256 not in ("", checksum):
        problem = "not found" if is_elsewhere else "is another model than the one of this checkpoint"
        raise InputError(
            f"{path}: {problem}; give the folder of its base with --model-overrides \"{{'base_model': 'FOLDER'}}\""
        )
    cfg.base_model, cfg.base_sha256 = str(path.resolve()), checksum


def weights_of(path: Path) -> tuple[Path, ...]:
    """Return the files with the weights of a model."""
    files = (path,) if path.suffix == GGUF else tuple(sorted(path.glob("*.safetensors")))
    if not files or not all(file.is_file() for file in files):
        raise InputError(
            f"{path}: not found, or has no weights; give the folder of a model with safetensors, or a {GGUF} file"
        )
    return files


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a model's weights."""
    return ",".join(map(hash_file, weights_of(path)))


def order_of(tokenizer: ModelTokenizer, config: Any) -> list[int]:
    """Return the model's id of each symbol of the dictionary."""
    eos = config.eos_token_id
    return tokenizer.order(config.vocab_size, eos[0] if isinstance(eos, list) else eos)


def _check_dictionary(dictionary: Dictionary, order: Sequence[int], path: Path) -> None:
    if dictionary.symbols[_SPECIAL:] != [str(number) for number in order[_SPECIAL:]]:
        raise InputError(
            f"{path}: the data's dictionary is not of this model's tokenizer; encode the text with it: base: in the "
            "experiment file, or fairseq-ext import lm"
        )


def _refuse_sizes(cfg: Any) -> None:
    """Refuse options of fairseq's own language models, which a base of Hugging Face would ignore."""
    for item in fields(TransformerLanguageModelConfig):
        default = item.default
        is_of_task = isinstance(default, str) and default.startswith("${")
        value = getattr(cfg, item.name, default)
        if not is_of_task and item.name != "_name" and value != default and str(value) != str(default):
            raise InputError(f"--{item.name.replace('_', '-')}: --base-model has its own; remove the option")


@torch.no_grad()
def _reorder(base: Any, order: Sequence[int], path: Path) -> None:
    """Put the rows of the embeddings in the order of fairseq's dictionary, in place, and check the scores."""
    tokens = torch.arange(_CHECKED_TOKENS).unsqueeze(0)
    expected = base(torch.tensor(order)[tokens], use_cache=False).logits[..., order]
    tables = [module for module in base.modules() if getattr(module, "num_embeddings", None) == len(order)]
    # Tied embeddings are one tensor.
    for table in nn.ModuleList([*tables, base.get_input_embeddings(), base.get_output_embeddings()]).parameters():
        table.data = table.data[list(order)]
    if not are_alike(base(tokens, use_cache=False).logits, expected):
        kind = base.config.model_type
        raise InputError(f"{path}: {kind!r} has several vocabularies; give another model")


# A base checkpoint names the model.
ARCH_CONFIG_REGISTRY[CAUSAL_LM] = sized_by_base(lambda args: None, names=(BASE_MODEL,))
