"""``--bpe wordpiece`` is registered, and cuts text as the data preparation does."""

from argparse import Namespace
from pathlib import Path

from fairseq.data import encoders

from fairseq_ext.corpora.wordpiece import WordPiece, write_wordpiece
from fairseq_ext.data.wordpiece import WordPieceBpe


def test_fairseq_builds_it(tmp_path: Path) -> None:
    write_wordpiece(tmp_path, WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]))
    bpe = encoders.build_bpe(Namespace(bpe="wordpiece", wordpiece_file=str(tmp_path / "wordpiece.json")))
    assert type(bpe) is WordPieceBpe
    assert bpe.encode("Cats dog") == "cat ##s <unk>"
    assert bpe.decode("cat ##s <unk>") == "cats <unk>"
    assert [bpe.is_beginning_of_word(piece) for piece in ("cat", "##s")] == [True, False]
