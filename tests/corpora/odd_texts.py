"""Texts that tokenisers may stumble over, and fairseq's own byte-level BPE."""

from pathlib import Path

from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig

ODD_TEXTS = [
    "plain text", " leading and trailing ", "two  spaces\tand a tab", "CRLF\r\nline\rend\n\n", "it's we'll I'd 'S",
    "🙂👍🏽 family 👨‍👩‍👧", "é vs e\u0301, \u00ad\u200b\ufeff", "\u2028\x1c\x00", "12,345.6 % ½ ²",
    "ÿþý are letters here", "<|endoftext|> as text", "<s> <unk> </s>", "العربية 中文 ไทย", "", " ",
]  # fmt: skip


def fairseq_bpe(folder: Path) -> GPT2BPE:
    """What ``--bpe gpt2`` is with the files of a folder."""
    files = {"gpt2_encoder_json": folder / "vocab.json", "gpt2_vocab_bpe": folder / "merges.txt"}
    return GPT2BPE(GPT2BPEConfig(**{key: str(path) for key, path in files.items()}))
