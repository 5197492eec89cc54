"""Texts that tokenisers may stumble over."""

ODD_TEXTS = [
    "plain text", " leading and trailing ", "two  spaces\tand a tab", "CRLF\r\nline\rend\n\n", "it's we'll I'd 'S",
    "🙂👍🏽 family 👨‍👩‍👧", "é vs e\u0301, \u00ad\u200b\ufeff", "\u2028\x1c\x00", "12,345.6 % ½ ²",
    "ÿþý are letters here", "<|endoftext|> as text", "<s> <unk> </s>", "العربية 中文 ไทย", "", " ",
]  # fmt: skip
