"""BERT as fairseq's RoBERTa: the same layers, but for the epsilon of their norms and for token types."""

from argparse import Namespace
from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta.model import RobertaModel, base_architecture
from torch import Tensor

from fairseq_ext.modules.norm_eps import set_norm_eps
from fairseq_ext.modules.token_types import take_token_types
from fairseq_ext.training.checkpoints import check_fit

NORM_EPS = 1e-12


@register_model("bert")
class BertModel(RobertaModel):
    """BERT (Devlin et al. 2019) for texts of one part: post-norm layers, learned positions, token type 0 in them.

    With RoBERTa's epsilon of 1e-5 the states of an imported model would differ in the third digit, for the variance of
    its embeddings is small. Token type 1 is kept for classifiers of pairs, and not used here.
    """

    def __init__(self, args: Any, encoder: Any):
        super().__init__(args, encoder)
        set_norm_eps(self.encoder, NORM_EPS)
        self.register_load_state_dict_pre_hook(check_fit)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Take over a checkpoint's token types."""
        take_token_types(self.encoder.sentence_encoder, state_dict, "encoder.sentence_encoder.")
        super().upgrade_state_dict_named(state_dict, name)


@register_model_architecture("bert", "bert")
def bert_architecture(args: Namespace) -> None:
    """BERT's base size: 12 layers, 768/3072/12."""
    base_architecture(args)
