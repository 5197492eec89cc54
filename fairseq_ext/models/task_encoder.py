"""fairseq's RoBERTa encoder with the adapters and layer norms of one task at a time."""

from typing import Any

from fairseq.models.roberta.model import RobertaEncoder
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fairseq_ext.modules.task_parameters import TaskSwitch, switch_norms
from fairseq_ext.modules.token_types import SECOND_TEXT, fresh_second_text, in_second_text


class TaskEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's layer with an adapter before each of its two residuals (Houlsby et al. 2019, Fig. 2).

    The input of an adapter is the output of the attention or feed-forward block, after dropout as in the published
    code.
    """

    switch: TaskSwitch
    number: int

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.switch.waiting = iter(self.switch.adapters(self.number))
        return super().forward(*args, **kwargs)

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """Adapt x and add the residual. Layers call this first after attention, then after the feed-forward block."""
        adapter = next(self.switch.waiting, None)
        return super().residual_connection(x if adapter is None else adapter(x), residual)


class TaskSentenceEncoder(TransformerEncoder):
    """fairseq's encoder, whose layers and norms use the task that a switch selects.

    Attributes:
        norm_names: names of all layer norms, in the order of a task's norms.
        second_text: H, difference of token type 1 from type 0; None for a base without token types.
    """

    second_text: nn.Parameter | None

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding):
        super().__init__(args, dictionary, embed_tokens)
        self.switch = TaskSwitch()
        for number, layer in enumerate(self.layers.children()):
            layer.switch, layer.number = self.switch, number
        self.norm_names = switch_norms(self, self.switch)
        has_types = getattr(args, "token_types", False)
        self.register_parameter(SECOND_TEXT, fresh_second_text(embed_tokens) if has_types else None)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Embed tokens as fairseq does, with token types if the task uses them."""
        if self.second_text is not None and self.switch.value is not None and self.switch.value.has_token_types:
            words = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
            is_second = in_second_text(src_tokens, self.dictionary.eos()).unsqueeze(-1)
            token_embedding = words + is_second * self.second_text / self.embed_scale
        embedding: tuple[Tensor, Tensor] = super().forward_embedding(src_tokens, token_embedding)
        return embedding

    def build_encoder_layer(self, args: Any) -> TaskEncoderLayer:
        return TaskEncoderLayer(TransformerConfig.from_namespace(args))


class TaskRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa around a :class:`TaskSentenceEncoder`."""

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> TaskSentenceEncoder:
        return TaskSentenceEncoder(args, dictionary, embed_tokens).apply(init_bert_params)


class LinearHead(nn.Module):
    """A linear layer on the first token's state, as in the paper; fairseq's head also has a hidden layer."""

    def __init__(self, embed_dim: int, num_classes: int, dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(embed_dim, num_classes)
        init_bert_params(self.out_proj)

    def forward(self, features: Tensor, **_: Any) -> Tensor:
        """Compute logits of classes: B×T×H → B×C."""
        logits: Tensor = self.out_proj(self.dropout(features[:, 0]))
        return logits
