"""fairseq's ``masked_lm`` with options for precision and CPU processes."""

from dataclasses import dataclass

from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fairseq_ext.tasks.precision import Precision, PrecisionConfig


@dataclass
class MaskedLanguageModelingConfig(PrecisionConfig, MaskedLMConfig):
    """Options of ``masked_lm`` and of precision."""


@register_task("masked_language_modeling", dataclass=MaskedLanguageModelingConfig)
class MaskedLanguageModelingTask(Precision, MaskedLMTask):
    """Training of BERT and RoBERTa with fairseq's data and criterion (``masked_lm``)."""
