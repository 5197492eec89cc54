"""Translation models of some thousand random weights, with tokenizers of a page, as Hugging Face keeps them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fairseq_ext.modules.pretrained import hide_broken_torchaudio
from tests.text.tiny_pieces import TEXT, write_pieces

_WORDS = " ".join(TEXT[:2]).split()
LINES = [" ".join(_WORDS[first : first + 1 + first % 4]) for first in range(len(_WORDS))]
# The longest translation that is looked for, </s> not counted.
LENGTH = 28
SIZES = {"d_model": 16, "max_position_embeddings": 64}
SIZES |= {"encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 24}
SIZES |= {"decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 20}


def write_vocab(path: Path, symbols: list[str]) -> int:
    path.write_text(json.dumps({symbol: number for number, symbol in enumerate(symbols)}), encoding="utf-8")
    return len(symbols)


def make_marian(
    folder: Path,
    *,
    languages: tuple[str, str] = ("eng", "deu"),
    targets: tuple[str, ...] = (),
    is_joint: bool = True,
    steps: int = 60,
    **changes: Any,
) -> Any:
    """Write an OPUS-MT for one target language or, told which, several ``targets``, and return the model."""
    pieces = {side: write_pieces(folder / f"{side}.spm", size) for side, size in (("source", 61), ("target", 58))}
    codes = [f">>{target}<<" for target in targets]
    first, last = ["</s>", "<unk>", *codes], ["<pad>"] if is_joint else []
    first += [] if is_joint else ["<pad>"]  # one number for both sides
    sides = [list(dict.fromkeys([*pieces["source"], *pieces["target"]]))] if is_joint else list(pieces.values())
    vocabularies = [[*first, *side, *last] for side in sides]
    told = {"source_lang": languages[0], "target_lang": "gem" if targets else languages[1]}
    model = _marian(folder, vocabularies, {**told, "separate_vocabs": not is_joint}, **changes)
    return save(folder, model, min(map(len, vocabularies)) - 1, ending=(0,), steps=steps)


def _marian(folder: Path, vocabularies: Sequence[list[str]], tokenizer: dict[str, Any], **changes: Any) -> Any:
    """A model of one vocabulary or two, with the files of its tokenizer."""
    hide_broken_torchaudio()
    from transformers import MarianConfig, MarianMTModel

    for file, symbols in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        write_vocab(folder / file, symbols)
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    pad = vocabularies[0].index("<pad>")
    return MarianMTModel(MarianConfig(**{
        **SIZES, "vocab_size": len(vocabularies[0]), "decoder_vocab_size": len(vocabularies[-1]), "pad_token_id": pad,
        "eos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0, "activation_function": "swish",
        "scale_embedding": True, "share_encoder_decoder_embeddings": len(vocabularies) == 1, **changes,
    }))  # fmt: skip


LANGUAGES = {"nllb": ("eng_Latn", "deu_Latn"), "m2m": ("en", "de")}
LANGUAGES |= dict.fromkeys(("mbart", "mbart50"), ("en_XX", "de_DE"))


def make(folder: Path, family: str, **changes: Any) -> Any:
    """Write a model of a family, and return it."""
    return make_marian(folder, **changes) if family == "marian" else make_many(folder, family, **changes)


def make_knowing_marian(folder: Path, pairs: Sequence[tuple[str, str]], *, languages: tuple[str, str]) -> Any:
    """Write an OPUS-MT that has learnt to translate some pairs, and return the model."""
    lines = dict(zip(("source", "target"), zip(*pairs, strict=True), strict=True))
    pieces = [write_pieces(folder / f"{side}.spm", 36, lines=own) for side, own in lines.items()]
    symbols = list(dict.fromkeys(["</s>", "<unk>", *pieces[0], *pieces[1], "<pad>"]))
    told = dict(zip(("source_lang", "target_lang"), languages, strict=True))
    torch.manual_seed(1)
    sizes = {"d_model": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "decoder_layers": 2, "dropout": 0.0}
    model = _marian(folder, [symbols], told, **sizes)
    tokenizer = load_tokenizer(folder, "marian")
    batch = tokenizer(list(lines["source"]), text_target=list(lines["target"]), return_tensors="pt", padding=True)
    batch["labels"] = batch["labels"].masked_fill(batch["labels"] == len(symbols) - 1, -100)
    optimizer = torch.optim.Adam((weight for weight in model.parameters() if weight.requires_grad), 0.005)
    for _ in range(150):
        rows = torch.randint(len(pairs), (32,))
        model(**{name: value[rows] for name, value in batch.items()}).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval().save_pretrained(folder)
    return model


def make_many(
    folder: Path, family: str, *, is_saved: bool = True, unused: int = 0, steps: int = 60, **changes: Any
) -> Any:
    """Write a many-language model, and return it; ``unused`` rows of its embeddings stand for no symbol.

    Its tokenizer is as ``save_pretrained`` leaves it, or as the hub has it.
    """
    hide_broken_torchaudio()
    from transformers import M2M100Config, M2M100ForConditionalGeneration, MBartConfig, MBartForConditionalGeneration

    is_mbart = family.startswith("mbart")
    pieces = write_pieces(folder / "sentencepiece.bpe.model", 61, "unigram" if is_mbart else "bpe")
    if family == "m2m":
        write_vocab(folder / "vocab.json", ["<s>", "<pad>", "</s>", "<unk>", *reversed(pieces)])
    tokenizer = load_tokenizer(folder, family)
    if is_saved or family == "nllb":
        tokenizer.save_pretrained(folder)
    if is_saved and family != "m2m":
        (folder / "sentencepiece.bpe.model").unlink()
    elif family == "mbart50":
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MBart50Tokenizer"}))
    numbers = [tokenizer.convert_tokens_to_ids(code(family, language)) for language in LANGUAGES[family]]
    config = {**SIZES, "vocab_size": max(len(tokenizer), *numbers) + 1 + unused, "scale_embedding": True, **changes}
    if family == "m2m":
        config["vocab_size"] = len(pieces) + 4 + 100 + unused
    if family == "mbart50":
        config["decoder_start_token_id"] = 2
    if family == "mbart":
        config |= {"decoder_start_token_id": numbers[1], "forced_eos_token_id": None}
    if is_mbart:
        model: Any = MBartForConditionalGeneration(MBartConfig(**config))
    else:
        model = M2M100ForConditionalGeneration(M2M100Config(**config))
    if family == "mbart":
        return save(folder, model, 50, ending=(2, numbers[1]), steps=steps)
    return save(folder, model, 50, prefix=(numbers[1],), ending=(2,), steps=steps)


def adapter_options(folder: Path) -> list[str]:
    """Options for adapters of three domains on an import; their names are written next to its dictionaries."""
    (folder / "domains.txt").write_text("law\nmed\nsub\n")
    return ["--finetune-from-model", str(folder / "model.pt"), *(folder / "options.txt").read_text().split()]


def code(family: str, language: str) -> str:
    """Hugging Face's symbol of a language."""
    return f"__{language}__" if family == "m2m" else language


def load_tokenizer(folder: Path, family: str) -> Any:
    from transformers import M2M100Tokenizer, MarianTokenizer, MBart50Tokenizer, MBartTokenizer, NllbTokenizer

    kinds = {"marian": MarianTokenizer, "m2m": M2M100Tokenizer, "mbart": MBartTokenizer, "mbart50": MBart50Tokenizer}
    if family in kinds:
        return kinds[family].from_pretrained(folder)
    languages = ["deu_Latn", "ell_Grek", "eng_Latn"]
    return NllbTokenizer.from_pretrained(folder, extra_special_tokens=languages)


def save(
    folder: Path, model: Any, symbols: int, *, prefix: tuple[int, ...] = (), ending: tuple[int, ...], steps: int = 60
) -> Any:
    """Write a model of random weights that has learnt to end its sentences, sooner or later.

    It is trained on texts of the symbols from 10 to ``symbols``, whose targets have a prefix and an ending.
    """
    generator = torch.Generator().manual_seed(1)

    def rows(longest: int, first: tuple[int, ...], last: tuple[int, ...], padding: int) -> torch.Tensor:
        found = []
        for length in torch.randint(1, longest, (32,), generator=generator).tolist():
            text = torch.randint(10, symbols, (length - 1,), generator=generator).tolist()
            found.append(torch.tensor([*first, *text, *last]))
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True, padding_value=padding)

    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.requires_grad:  # Marian's positions do not
                mean = float("norm" in name and name.endswith("weight"))
                value.copy_(mean + 0.3 * torch.randn(value.shape, generator=generator))
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(generator=generator)
    pad = model.config.pad_token_id
    source, target = rows(12, (), (model.config.eos_token_id,), pad), rows(9, prefix, ending, -100)
    model.eval()  # without dropout, whose numbers would be others in another order of tests
    optimizer = torch.optim.Adam((weight for weight in model.parameters() if weight.requires_grad), 0.02)
    for _ in range(steps):
        model(input_ids=source, attention_mask=source.ne(pad).long(), labels=target).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    return model


def symbols(folder: Path) -> list[list[str] | None]:
    """Those of the source and the target, by Hugging Face's number; None where fairseq's are the same."""
    if not (folder / "source.spm").is_file():
        return [None, None]
    files = [folder / name for name in ("vocab.json", "target_vocab.json") if (folder / name).is_file()]
    sides = [list(json.loads(file.read_text(encoding="utf-8"))) for file in files]
    return [sides[0], sides[-1]]


def translated(model: Any, folder: Path, family: str, told: dict[str, str], beam: int) -> list[str | None]:
    """All lines by Hugging Face's tokenizer and search; None for one that did not end in time.

    There the two searches differ: Hugging Face's gives the forced end a probability of one.
    """
    tokenizer = load_tokenizer(folder, family)
    end, lines, search = model.config.eos_token_id, LINES, {}
    if family == "marian":
        lines = [f">>{told['--target-lang']}<< {line}" if "--language-tokens" in told else line for line in LINES]
    else:
        tokenizer.src_lang = told["--source-lang"]
        target = tokenizer.convert_tokens_to_ids(code(family, told["--target-lang"]))
        if family == "mbart":
            # As fairseq does: the language begins and ends a sentence.
            end, search = target, {"decoder_start_token_id": target, "eos_token_id": target}
        else:
            everything = list(range(model.config.vocab_size))
            # A forced token has a probability of one with Hugging Face's, and its own with fairseq.
            search = {"prefix_allowed_tokens_fn": lambda _, row: everything if len(row) > 1 else [target]}
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    # fairseq stops as soon as it has as many hypotheses as the search is wide.
    search |= {"num_beams": beam, "early_stopping": True} if beam > 1 else {}
    found = model.generate(**batch, **search, max_length=LENGTH + 2)
    kind = {"use_source_tokenizer": False} if family == "marian" else {}
    texts = tokenizer.batch_decode(found, skip_special_tokens=True, **kind)
    texts = [re.sub("__[a-z]+__", "", text) for text in texts]  # which M2M's tokenizer does not skip
    has_ended = found[:, 1:-1].eq(end).any(1) | (found.shape[1] < LENGTH + 2)
    return [text if ended else None for text, ended in zip(texts, has_ended, strict=True)]
