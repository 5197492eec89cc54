"""The same numbers as AdapterHub's own implementation, its double sequential bottleneck, on the same weights.

The package ``adapters`` needs an older ``transformers`` than this project, so that it has an environment of its own:
``pip install torch==2.13.0 adapters==1.3.0 pytest scikit-learn scipy`` and fairseq.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

adapters = pytest.importorskip(
    "adapters", reason="AdapterHub's package is absent; it needs an environment of its own (see this file's head)"
)

from fairseq_ext.models.roberta_houlsby_adapter import RobertaHoulsbyAdapterModel  # noqa: E402
from tests import toy_tasks  # noqa: E402

WORDS, LAYERS, BOTTLENECK = toy_tasks.WORDS, 2, 8
SYMBOLS = WORDS + 5  # the four special ones, and <mask>
# fairseq's name of a module in a layer, and Hugging Face's.
MODULES = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}


def make_theirs(activation: str) -> Any:
    """A random RoBERTa of Hugging Face's with AdapterHub's adapters; no two tensors are alike."""
    from transformers import RobertaConfig, RobertaModel

    torch.manual_seed(1)
    config = RobertaConfig(
        vocab_size=SYMBOLS, hidden_size=toy_tasks.WIDTH, num_hidden_layers=LAYERS, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=toy_tasks.POSITIONS + 2, type_vocab_size=1,
        layer_norm_eps=1e-5, pad_token_id=toy_tasks.PAD,
    )  # fmt: skip
    model = RobertaModel(config)
    adapters.init(model)
    reduction = toy_tasks.WIDTH / BOTTLENECK
    model.add_adapter("task", config=adapters.DoubleSeqBnConfig(non_linearity=activation, reduction_factor=reduction))
    model.set_active_adapters("task")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def base_state(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights by the names of ours; the one kind of tokens is added to every position, and so to their table."""
    kind = theirs["embeddings.token_type_embeddings.weight"][0]
    state = {
        "embed_tokens.weight": theirs["embeddings.word_embeddings.weight"],
        "embed_positions.weight": theirs["embeddings.position_embeddings.weight"] + kind,
    }
    for suffix in ("weight", "bias"):
        state[f"layernorm_embedding.{suffix}"] = theirs[f"embeddings.LayerNorm.{suffix}"]
        for n in range(LAYERS):
            for ours, name in MODULES.items():
                state[f"layers.{n}.{ours}.{suffix}"] = theirs[f"encoder.layer.{n}.{name}.{suffix}"]
    return state


def make_ours(theirs: Any, activation: str) -> RobertaHoulsbyAdapterModel:
    """The same base, whose norms are the task's, and the same adapters."""
    ours = toy_tasks.make_model("task", bottleneck_dim=BOTTLENECK, adapter_activation_fn=activation)
    base, state = ours.encoder.sentence_encoder, base_state(theirs.state_dict())
    # As in AdapterHub no task has norms of its own, the base's are given to both; ours must not need them there.
    own_norms = [(state[f"{name}.weight"], state[f"{name}.bias"]) for name in base.norm_names]
    for name in base.norm_names:
        state |= {f"{name}.{suffix}": torch.full_like(state[f"{name}.weight"], 9.0) for suffix in ("weight", "bias")}
    missing, unknown = base.load_state_dict(state, strict=False)
    assert (missing, unknown) == (["version"], [])
    task = ours.tasks["task"]
    with torch.no_grad():
        for norm, (weight, bias) in zip(task.norms, own_norms, strict=True):
            norm.weight.copy_(weight)
            norm.bias.copy_(bias)
    for n, layer in enumerate(theirs.encoder.layer):
        for place, part in enumerate((layer.attention.output, layer.output)):
            bottleneck = adapters_of(part)
            task.adapters[2 * n + place].down.load_state_dict(bottleneck.adapter_down[0].state_dict())
            task.adapters[2 * n + place].up.load_state_dict(bottleneck.adapter_up.state_dict())
    return ours


def adapters_of(part: nn.Module) -> Any:
    """The one adapter of AdapterHub's below a part of a layer."""
    (found,) = [module for module in part.modules() if hasattr(module, "adapter_down")]
    return found


@pytest.mark.parametrize("activation", ["swish", "gelu", "relu"])
def test_hidden_states_are_the_same(activation: str) -> None:
    """swish is the default of ``DoubleSeqBnConfig``; with padding and without, layer by layer."""
    theirs = make_theirs(activation)
    ours = make_ours(theirs, activation)
    tokens = toy_tasks.tokens_of(3, 12)
    tokens[1, 7:] = toy_tasks.PAD
    is_token = tokens.ne(toy_tasks.PAD)
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=is_token.long(), output_hidden_states=True).hidden_states
        with ours.active("task"):
            states = ours(tokens, features_only=True, return_all_hiddens=True)[1]["inner_states"]
    assert len(states) == len(expected) == LAYERS + 1
    for own, other in zip(states, expected, strict=True):
        difference = (own.transpose(0, 1) - other)[is_token].abs().max()
        assert difference <= 1e-5
