"""fairseq's RoBERTa encoder, in which adapters and layer norms of one task at a time take part."""

from typing import Any

from fairseq.models.roberta.model import RobertaEncoder
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fairseq_ext.modules.task_parameters import TaskSwitch, switch_norms


class TaskEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's layer with an adapter before each of its two residuals (Houlsby et al. 2019, Fig. 2).

    An adapter takes what the attention or the feed-forward part hands to the residual, after dropout as in the
    published code.

    Attributes:
        switch: gives the adapters, or none.
        number: of the layer, from 0.
    """

    switch: TaskSwitch
    number: int

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.switch.waiting = iter(self.switch.adapters(self.number))
        return super().forward(*args, **kwargs)

    def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
        """Attention's comes first, then feed-forward's, in pre-norm and post-norm layers."""
        adapter = next(self.switch.waiting, None)
        return super().residual_connection(x if adapter is None else adapter(x), residual)


class TaskSentenceEncoder(TransformerEncoder):
    """fairseq's encoder, whose layers and norms follow a switch.

    Attributes:
        switch: says for which task to compute.
        norm_names: of all layer norms, in the order of a task's own.
    """

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding):
        super().__init__(args, dictionary, embed_tokens)
        self.switch = TaskSwitch()
        for number, layer in enumerate(self.layers.children()):
            layer.switch, layer.number = self.switch, number
        self.norm_names = switch_norms(self, self.switch)

    def build_encoder_layer(self, args: Any) -> TaskEncoderLayer:
        return TaskEncoderLayer(TransformerConfig.from_namespace(args))


class TaskRobertaEncoder(RobertaEncoder):
    """fairseq's RoBERTa around a :class:`TaskSentenceEncoder`."""

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> TaskSentenceEncoder:
        return TaskSentenceEncoder(args, dictionary, embed_tokens).apply(init_bert_params)
