"""``--bpe model_tokenizer``: the tokenizer of a Hugging Face language model for fairseq's commands and hub."""

from dataclasses import dataclass
from pathlib import Path

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from fairseq_ext.base.option import option
from fairseq_ext.text.model_tokenizer import read_model_tokenizer


@dataclass
class ModelTokenizerConfig(FairseqDataclass):
    """Options of ``--bpe model_tokenizer``."""

    tokenizer_file: str = option("???", "tokenizer.json of the data directory, or of a model")


@register_bpe("model_tokenizer", dataclass=ModelTokenizerConfig)
class ModelTokenizerBpe:
    """fairseq's interface to :mod:`fairseq_ext.text.model_tokenizer`."""

    def __init__(self, cfg: ModelTokenizerConfig) -> None:
        self._tokenizer = read_model_tokenizer(Path(cfg.tokenizer_file))

    def encode(self, x: str) -> str:
        """Return the ids of a text, separated by spaces."""
        return next(self._tokenizer.encode([x]))

    def decode(self, x: str) -> str:
        """Return the text of ids."""
        return self._tokenizer.decode(x)
