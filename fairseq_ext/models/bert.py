"""BERT based on fairseq's RoBERTa, which differs in the epsilon of layer norms and in token types."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta.model import RobertaModel, base_architecture
from torch import Tensor, nn

from fairseq_ext.models.checkpoints import check_fit
from fairseq_ext.modules.text_entry import read_text, text_entry
from fairseq_ext.modules.token_types import take_token_types

ENTRY = "layer_norm_eps"
NORM_EPS = 1e-12


def norm_eps_entry(eps: float) -> Tensor:
    """Encode the epsilon as a state-dict entry; as text, because 1e-12 is zero in half precision."""
    return text_entry(repr(eps))


def set_norm_eps(encoder: nn.Module, eps: float) -> None:
    """Set the epsilon of all layer norms of an encoder, and store it in the encoder's state dict."""
    for module in encoder.modules():
        # Match by class name: with apex installed, fairseq's norms are not nn.LayerNorm.
        if type(module).__name__.endswith("LayerNorm"):
            module.eps = eps  # type: ignore[assignment]
    encoder.register_buffer(ENTRY, norm_eps_entry(eps).to(next(encoder.parameters())))


def take_norm_eps(encoder: nn.Module, state: Mapping[str, Tensor], prefix: str) -> None:
    """Set an encoder's epsilon from a state dict, if stored there."""
    entry = state.get(prefix + ENTRY)
    if entry is not None:
        set_norm_eps(encoder, float(read_text(entry)))


@register_model("bert")
class BertModel(RobertaModel):
    """BERT (Devlin et al. 2019) for single texts: post-norm layers; learned positions, which include token type 0.

    With RoBERTa's epsilon of 1e-5, the states of an imported model would differ in the third digit, as the variance of
    its embeddings is small. Token type 1 is stored for classifiers of pairs and not used here.
    """

    def __init__(self, args: Any, encoder: Any):
        super().__init__(args, encoder)
        set_norm_eps(self.encoder, NORM_EPS)
        self.register_load_state_dict_pre_hook(check_fit)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        take_token_types(self.encoder.sentence_encoder, state_dict, "encoder.sentence_encoder.")
        super().upgrade_state_dict_named(state_dict, name)


@register_model_architecture("bert", "bert")
def bert_architecture(args: Namespace) -> None:
    """BERT base: 12 layers, 768/3072/12."""
    base_architecture(args)
