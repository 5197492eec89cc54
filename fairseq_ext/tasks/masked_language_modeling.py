"""fairseq's ``masked_lm``, as precisely and in as many processes as asked for."""

from dataclasses import dataclass

from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class MaskedLanguageModelingConfig(PrecisionConfig, MaskedLMConfig):
    """The options of both."""


@register_task("masked_language_modeling", dataclass=MaskedLanguageModelingConfig)
class MaskedLanguageModelingTask(Precision, MaskedLMTask):
    """BERT's and RoBERTa's training, with data and criterion (``masked_lm``) of fairseq's."""
