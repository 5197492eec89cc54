"""Translation models of some thousand random weights, with tokenizers of a page, as Hugging Face keeps them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from fairseq_ext.hugging_face.torchaudio_guard import hide_broken_torchaudio
from tests.hugging_face.tiny_gpt2 import TEXT

_WORDS = " ".join(TEXT[:2]).split()
LINES = [" ".join(_WORDS[first : first + 1 + first % 4]) for first in range(len(_WORDS))]
# The longest translation that is looked for, </s> not counted.
LENGTH = 28
SIZES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 20,
    "max_position_embeddings": 64,
}


def write_pieces(path: Path, size: int, kind: str = "unigram") -> list[str]:
    """Train a SentencePiece model, and return its pieces without the special ones."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_writer=model, vocab_size=size, model_type=kind, num_threads=1, minloglevel=2
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(number) for number in range(3, size)]


def write_vocab(path: Path, symbols: list[str]) -> int:
    path.write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols)}), encoding="utf-8")
    return len(symbols)


def make_marian(
    folder: Path, *, targets: tuple[str, ...] = (), is_joint: bool = True, seed: int = 1, **changes: Any
) -> Any:
    """Write an OPUS-MT for ``targets`` (none: for German alone), and return the model."""
    hide_broken_torchaudio()
    from transformers import MarianConfig, MarianMTModel

    pieces = {side: write_pieces(folder / f"{side}.spm", size) for side, size in (("source", 61), ("target", 58))}
    codes = [f">>{target}<<" for target in targets]
    first, last = ["</s>", "<unk>", *codes], ["<pad>"] if is_joint else []
    first += [] if is_joint else ["<pad>"]  # one number for both sides
    sides = [list(dict.fromkeys([*pieces["source"], *pieces["target"]]))] if is_joint else list(pieces.values())
    files = ["vocab.json", "target_vocab.json"][: len(sides)]
    sizes = [write_vocab(folder / file, [*first, *side, *last]) for file, side in zip(files, sides, strict=True)]
    tokenizer = {"source_lang": "eng", "target_lang": "gem" if targets else "deu", "separate_vocabs": not is_joint}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    pad = sizes[0] - 1 if is_joint else 2
    config = MarianConfig(**{
        **SIZES, "vocab_size": sizes[0], "decoder_vocab_size": sizes[-1], "pad_token_id": pad, "eos_token_id": 0,
        "decoder_start_token_id": pad, "forced_eos_token_id": 0, "activation_function": "swish",
        "scale_embedding": True, "share_encoder_decoder_embeddings": is_joint, **changes,
    })  # fmt: skip
    return save(folder, MarianMTModel(config), 0, min(sizes) - 1)


def save(folder: Path, model: Any, end: int, symbols: int, prefix: tuple[int, ...] = ()) -> Any:
    """Write a model of random weights that has learnt to end its sentences, sooner or later.

    Args:
        folder: where to write.
        model: of Hugging Face's.
        end: number of ``</s>``.
        symbols: how many the targets are made of, from number 10 on.
        prefix: what the targets begin with.
    """
    generator = torch.Generator().manual_seed(1)

    def random_rows(low: int, high: int, first: int) -> torch.Tensor:
        rows = torch.randint(10, symbols, (32, high), generator=generator)
        lengths = torch.randint(low, high, (32, 1), generator=generator)
        at = torch.arange(high)
        return rows.where(at < lengths, torch.where(at == lengths, end, first))

    with torch.no_grad():
        for name, value in model.named_parameters():
            if "embed_positions" not in name:
                mean = float("norm" in name and name.endswith("weight"))
                value.copy_(mean + 0.3 * torch.randn(value.shape, generator=generator))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(generator=generator)
    source, target = random_rows(2, 12, model.config.pad_token_id), random_rows(0, 9, -100)
    target = torch.cat([torch.tensor([prefix] * 32, dtype=torch.long), target], 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    model.eval()  # without dropout, whose numbers would be others in another order of tests
    for _ in range(120):
        mask = source.ne(model.config.pad_token_id).long()
        model(input_ids=source, attention_mask=mask, labels=target).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return model


def symbols(folder: Path) -> list[list[str]]:
    """Those of the source and the target, by Hugging Face's number."""
    files = [folder / name for name in ("vocab.json", "target_vocab.json") if (folder / name).is_file()]
    sides = [list(json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return [sides[0], sides[-1]]


def translated(model: Any, folder: Path, told: dict[str, str], beam: int) -> list[str | None]:
    """All lines by Hugging Face's tokenizer and search; None for one that did not end in time.

    There the two searches differ: Hugging Face's gives the forced end a probability of one.
    """
    from transformers import MarianTokenizer

    tokenizer = MarianTokenizer.from_pretrained(folder)
    code = f">>{told['--target-lang']}<< " if "--language-tokens" in told else ""
    batch = tokenizer([code + line for line in LINES], return_tensors="pt", padding=True)
    # fairseq stops as soon as it has as many hypotheses as the search is wide.
    search = {"num_beams": beam, "early_stopping": True} if beam > 1 else {}
    found = model.generate(**batch, **search, max_length=LENGTH + 2)
    texts = tokenizer.batch_decode(found, skip_special_tokens=True, use_source_tokenizer=False)
    has_ended = found[:, 1:-1].eq(model.config.eos_token_id).any(1) | (found.shape[1] < LENGTH + 2)
    return [text if ended else None for text, ended in zip(texts, has_ended, strict=True)]
