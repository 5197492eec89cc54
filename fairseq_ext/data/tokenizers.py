"""``--bpe wordpiece`` and ``--bpe model_tokenizer``: tokenizers of Hugging Face models for fairseq."""

from dataclasses import dataclass
from pathlib import Path

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from fairseq_ext.base.option import option
from fairseq_ext.text.model_tokenizer import read_model_tokenizer
from fairseq_ext.text.wordpiece import PREFIX, join_pieces, read_wordpiece, wordpiece_encoder


@dataclass
class WordPieceConfig(FairseqDataclass):
    """Options of ``--bpe wordpiece``."""

    wordpiece_file: str = option("???", "wordpiece.json of a BERT imported by fairseq-ext import roberta")


@register_bpe("wordpiece", dataclass=WordPieceConfig)
class WordPieceBpe:
    """fairseq's interface to :mod:`fairseq_ext.text.wordpiece`."""

    def __init__(self, cfg: WordPieceConfig) -> None:
        self._encode = wordpiece_encoder(read_wordpiece(Path(cfg.wordpiece_file)))

    def encode(self, x: str) -> str:
        """Segment a text into pieces, joined by spaces."""
        return next(self._encode([x]))

    def decode(self, x: str) -> str:
        """Join pieces to words, separated by spaces."""
        return join_pieces(x)

    def is_beginning_of_word(self, x: str) -> bool:
        """Return whether a piece begins a word, for ``--mask-whole-words``."""
        return not x.startswith(PREFIX)


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
