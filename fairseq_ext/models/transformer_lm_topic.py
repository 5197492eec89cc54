"""Topic Aware Transformer: a frozen language model whose last states are steered towards topics."""

from dataclasses import dataclass
from typing import Any, Self

from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.models import FairseqIncrementalDecoder, register_model
from fairseq.models.transformer import TransformerDecoder
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.option import option
from fairseq_ext.models.causal_lm import BaseModelConfig, CausalDecoder, note_base
from fairseq_ext.models.presets import RANDOM_BASE
from fairseq_ext.models.transformer_lm_hier_adapter import register_language_model_sizes
from fairseq_ext.modules.causal_models import has_plain_scores
from fairseq_ext.modules.freezing import FrozenBase, freeze_base
from fairseq_ext.modules.language_model_options import MIXTURES, NUM_TOPICS, TOPIC_MODEL, TRANSFORMATIONS
from fairseq_ext.modules.topics import MixtureOfSoftmaxes, TopicSteering

# Attribute of the decoder that holds all added parameters.
TOPICS = "topics"


@dataclass
class TopicConfig(BaseModelConfig, TransformerLanguageModelConfig):
    """Options of the topics, in addition to fairseq's options of the language model."""

    random_base: bool = RANDOM_BASE
    num_topics: int = option(
        NUM_TOPICS, f"Z: number of topics besides topic 0, which keeps the base's states (default: {NUM_TOPICS})"
    )
    topic_transformation: ChoiceEnum(list(TRANSFORMATIONS)) = option(  # type: ignore[valid-type]
        TRANSFORMATIONS[0],
        "transformation of the last state h by a topic: h·A + b (affine), h ⊙ g (multiplication), or "
        "(1 − ω)·h + ω·g with a learned ω per topic (addition) (default: affine, the paper's)",
    )
    mixture: ChoiceEnum(list(MIXTURES)) = option(  # type: ignore[valid-type]
        MIXTURES[0],
        "mix the topics' probabilities (softmaxes, the paper's) or their logits, which takes little more time "
        "than the base (logits) (default: softmaxes)",
    )
    mixture_chunk: int = option(
        1024,
        "number of rows of logits in memory at a time, one per token and topic; affects speed and memory, not "
        "results (default: 1024)",
    )
    freeze_output_embedding: bool = option(
        False, "use the base's output embedding unchanged (default: train a copy of it, as in the paper)"
    )
    frozen_mode: ChoiceEnum(["eval", "train"]) = option(  # type: ignore[valid-type]
        "train", "mode of the frozen base in training: with dropout (train) or without (eval) (default: train)"
    )


class TopicOutput(FairseqIncrementalDecoder):
    """A decoder of a language model with a mixture of topics as its output layer. Mixin before the decoder.

    Attributes:
        topics: transformation of the last states by topic, and mixture of the resulting softmaxes.
        forced_topic: the only topic to use outside training; None for all.
    """

    topics: MixtureOfSoftmaxes
    forced_topic: int | None = None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: dict | None = None,
        features_only: bool = False,
        targets: Tensor | None = None,
        src_lengths: Any = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Compute scores whose softmax are the probabilities of the next tokens, or the log probability of the targets.

        Args:
            targets: next token of each token, or padding. If given, features are returned instead of scores, and
                logits over the vocabulary are in memory for one chunk of tokens at a time.

        Returns:
            Scores or features, and a dictionary: ``hidden``, the last states; ``topic_weights``, π;
            ``topic_embeddings``, the columns of W_Z; with targets, ``log_prob``, the sum of their log probabilities.

        Shape:
            prev_output_tokens, targets: B×T; scores: B×T×V; features, hidden: B×T×H; topic_weights: B×T×(Z+1);
            topic_embeddings: (Z+1)×H; log_prob: scalar
        """
        hidden, extra = self.extract_features(prev_output_tokens, None, incremental_state, **kwargs)
        if targets is not None:
            extra["log_prob"] = self.log_prob_sum(hidden, targets)
        if features_only or targets is not None:
            return hidden, extra
        return self.output_layer(hidden), extra

    def extract_features(self, *args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, Any]]:
        hidden, extra = super().extract_features(*args, **kwargs)
        steering = self.topics.steering
        hidden = hidden.to(steering.embeddings.dtype)
        topics = {"topic_weights": steering.weights(hidden), "topic_embeddings": steering.embeddings}
        return hidden, extra | {"hidden": hidden, **topics}

    def output_layer(self, features: Tensor) -> Tensor:
        """Compute scores of tokens: B×T×H → B×T×V."""
        scores = self.topics.scores(features.flatten(0, 1), self.output_weight, self._only_topic)
        return scores.unflatten(0, features.shape[:2])

    def log_prob_sum(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Sum the log probabilities of the targets: B×T×H and B×T → scalar."""
        is_token = targets.ne(self.padding_idx)
        return self.topics.log_prob_sum(hidden[is_token], targets[is_token], self.output_weight, self._only_topic)

    @property
    def output_weight(self) -> Tensor:
        """W_V transposed, V×H: the trained copy, or the base's."""
        own: Tensor | None = self.topics.output_weight
        weight: Tensor = self.output_projection.weight if own is None else own
        return weight.to(self.topics.steering.embeddings.dtype)  # the base's precision may be lower

    @property
    def _only_topic(self) -> int | None:
        return None if self.training else self.forced_topic


class TopicDecoder(TopicOutput, TransformerDecoder):
    """fairseq's decoder."""


class CausalTopicDecoder(TopicOutput, CausalDecoder):
    """A base of Hugging Face."""

    @classmethod
    def load(cls, cfg: Any, dictionary: Dictionary) -> Self:
        decoder = super().load(cfg, dictionary)
        if not has_plain_scores(decoder.base):
            raise InputError(f"{cfg.base_model}: its scores have a bias, scale or limit; for topics, give another base")
        return decoder


@register_model(TOPIC_MODEL, dataclass=TopicConfig)
class TransformerLMTopicModel(FrozenBase, TransformerLanguageModel):
    """A frozen language model with Z topics that steer it towards a corpus (Topic Aware Transformer).

    The topics are trained, and a copy of the output embedding, so that input embeddings tied to it stay unchanged.
    State-dict keys of the base are those of fairseq's ``transformer_lm``; added ones begin with ``decoder.topics``.
    """

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "TransformerLMTopicModel":
        if cfg.adaptive_softmax_cutoff is not None:
            raise InputError("--adaptive-softmax-cutoff cannot be used with topics; remove it")
        note_base(cfg)
        if cfg.base_model:
            model = cls(CausalTopicDecoder.load(cfg, task.target_dictionary))
        else:
            model = super().build_model(cfg, task)
            # Keep the embeddings that fairseq built from the options, and replace only the output layer.
            embed_tokens = model.decoder.embed_tokens
            model.decoder = TopicDecoder(cfg, task.target_dictionary, embed_tokens, no_encoder_attn=True)
        model.add_topics(cfg)
        return model

    def add_topics(self, cfg: TopicConfig) -> None:
        """Add the topics and freeze the rest."""
        output = self.decoder.output_projection
        self.decoder.topics = MixtureOfSoftmaxes(
            TopicSteering(output.in_features, cfg.num_topics, str(cfg.topic_transformation)),
            average_states=str(cfg.mixture) == "logits",
            chunk_size=cfg.mixture_chunk,
            output_weight=None if cfg.freeze_output_embedding else output.weight.float(),
        )
        self.frozen_mode = str(cfg.frozen_mode)
        freeze_base(self, self.is_trained)

    def is_trained(self, name: str) -> bool:
        return TOPICS in name.split(".")

    @property
    def num_topics(self) -> int:
        number: int = self.decoder.topics.steering.num_topics
        return number

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Add initial topics and a trainable copy of the output embedding to a base checkpoint."""
        super().upgrade_state_dict_named(state_dict, name)
        own = {key: value for key, value in self.state_dict().items() if self.is_trained(key)}
        if not any(self.is_trained(key) for key in state_dict):
            state_dict.update(own)
            base, copy = "decoder.output_projection.weight", f"decoder.{TOPICS}.output_weight"
            if copy in own and base in state_dict:
                state_dict[copy] = state_dict[base].clone()


register_language_model_sizes(TOPIC_MODEL)
