"""``--bpe wordpiece``: text as pieces of an imported BERT for fairseq's commands and its hub."""

from dataclasses import dataclass
from pathlib import Path

from fairseq.data.encoders import register_bpe
from fairseq.dataclass import FairseqDataclass

from fairseq_ext.corpora.wordpiece import PREFIX, join_pieces, read_wordpiece, wordpiece_encoder
from fairseq_ext.inputs.option import option


@dataclass
class WordPieceConfig(FairseqDataclass):
    """Where the pieces are."""

    wordpiece_file: str = option("???", "wordpiece.json of a BERT that fairseq-ext import roberta imported")


@register_bpe("wordpiece", dataclass=WordPieceConfig)
class WordPieceBpe:
    """fairseq's interface to :mod:`fairseq_ext.corpora.wordpiece`."""

    def __init__(self, cfg: WordPieceConfig) -> None:
        self._encode = wordpiece_encoder(read_wordpiece(Path(cfg.wordpiece_file)))

    def encode(self, x: str) -> str:
        """A text as pieces joined by spaces."""
        return next(self._encode([x]))

    def decode(self, x: str) -> str:
        """The words of pieces joined by spaces, a space between any two."""
        return join_pieces(x)

    def is_beginning_of_word(self, x: str) -> bool:
        """Whether a piece begins a word, for ``--mask-whole-words``."""
        return not x.startswith(PREFIX)
