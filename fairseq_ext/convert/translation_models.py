"""Import Hugging Face translation models as bases for adapters.

They compute the same function as fairseq's Transformer, with the same weight names. Marian models differ in three ways:
their positions are stored as a learned table; their decoder begins with ``<pad>``, whose embedding becomes that of the
decoder's ``</s>``; and their output layer has a bias (:mod:`fairseq_ext.patches.models`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.base.fairseq_cli import as_arguments, quieten_fairseq
from fairseq_ext.convert.checkpoints import OPTIONS_FILE
from fairseq_ext.convert.embedding_tables import EmbeddingTables
from fairseq_ext.convert.fairseq_model import Imported, read_transformer
from fairseq_ext.convert.hugging_face import (
    CONFIG_FILE,
    load_weights,
    read_rate,
    read_size,
    weight_file,
)
from fairseq_ext.convert.translation_vocabulary import (
    TEXT_FILES,
    TOKENIZER_CONFIG_FILE,
    VOCAB_FILE,
    TranslationVocabulary,
    read_vocabulary,
)
from fairseq_ext.modules.pretrained import read_json
from fairseq_ext.patches.checkpoints import check_weights

_GENERATION_CONFIG = "generation_config.json"
INPUT_FILES = (_GENERATION_CONFIG, *TEXT_FILES)  # besides configuration and weights
# Hugging Face's names and fairseq's.
_ACTIVATIONS = {
    **{name: name for name in ("relu", "gelu", "swish", "tanh")},
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh"), "gelu_accurate"),
    "silu": "swish",
}
# Rates of dropout, and Hugging Face's defaults.
_RATES = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
# Settings of search, and Hugging Face's defaults.
_SEARCH: Mapping[str, Any] = {
    **{"num_beams": 1, "length_penalty": 1.0, "no_repeat_ngram_size": 0},
    **{"min_length": 0, "max_length": None},
}
_TABLES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")


def import_translation_model(source: Path, folder: Path, languages: Sequence[str | None] = (None, None)) -> None:
    """Convert a Marian (OPUS-MT), M2M-100, dense NLLB-200, mBART or mBART-50 model.

    Args:
        source: folder written by ``save_pretrained``, or a snapshot of the hub.
        folder: existing folder to write to. docs/import-export.md lists the files.
        languages: source and target; None to read it from the folder.
    """
    quieten_fairseq()
    path = source / CONFIG_FILE
    config = read_json(path)
    family = _family(config, source)
    search = config | (read_json(source / _GENERATION_CONFIG) if (source / _GENERATION_CONFIG).is_file() else {})
    generation = _generation(search, source)
    vocabulary, size = read_vocabulary(source, family, languages), config.get("vocab_size")
    vocabulary = replace(
        vocabulary,
        source=vocabulary.source.padded(size, path),
        target=vocabulary.target.padded(config.get("decoder_vocab_size") or size, path),
    )
    options = _options(config, family, path)
    weights = load_weights(source)
    with naming(weight_file(source)):
        check_weights(weights)
        imported = read_transformer(*_converted(weights, search, vocabulary, options))
        imported.check_shapes()
    write_base_model(folder, imported, vocabulary, generation)


def write_base_model(
    folder: Path, model: Imported, vocabulary: TranslationVocabulary, generation: Sequence[str]
) -> None:
    """Write an imported translation model, and the options of fairseq's commands for it and of ``fairseq-generate``."""
    vocabulary.write(folder)
    model.write(folder, vocabulary.languages)
    for name, line in ((OPTIONS_FILE, vocabulary.options), ("generation.txt", generation)):
        (folder / name).write_text(" ".join(line) + "\n", encoding="utf-8")


def _family(config: Mapping[str, Any], source: Path) -> str:
    """Return the model's family, as named in :func:`read_vocabulary`."""
    kind = config.get("model_type")
    if kind == "marian":
        return "marian"
    if kind == "m2m_100":
        return "m2m" if (source / VOCAB_FILE).is_file() else "nllb"
    if kind == "mbart":
        path = source / TOKENIZER_CONFIG_FILE
        tokenizer = {**config, **(read_json(path) if path.is_file() else {})}.get("tokenizer_class")
        return "mbart50" if str(tokenizer).startswith("MBart50") else "mbart"
    raise InputError(
        f"{source / CONFIG_FILE}: model_type is {shown(kind)}; import hf supports Marian (OPUS-MT), M2M-100, "
        "dense NLLB-200, mBART and mBART-50"
    )


def _options(config: Mapping[str, Any], family: str, path: Path) -> dict[str, Any]:
    """Return the options of fairseq's Transformer that build the model."""
    activation = config.get("activation_function")
    if activation not in _ACTIVATIONS:
        raise InputError(
            f"{path}: unknown activation_function {shown(activation)}; expected {' or '.join(_ACTIVATIONS)}"
        )
    is_marian, is_mbart = family == "marian", family in ("mbart", "mbart50")
    options: dict[str, Any] = {
        "activation_fn": _ACTIVATIONS[activation],
        "no_scale_embedding": not config.get("scale_embedding", family in ("m2m", "nllb")),
        "layernorm_embedding": is_mbart,
    }
    for side in ("encoder", "decoder"):
        options |= {
            f"{side}_embed_dim": read_size(config, "d_model", path),
            f"{side}_layers": read_size(config, f"{side}_layers", path),
            f"{side}_attention_heads": read_size(config, f"{side}_attention_heads", path),
            f"{side}_ffn_embed_dim": read_size(config, f"{side}_ffn_dim", path),
            f"{side}_learned_pos": is_marian or is_mbart,
            f"{side}_normalize_before": not is_marian,
        }
    options |= {name: read_rate({name: usual, **config}, name, path) for name, usual in _RATES.items()}
    positions = read_size(config, "max_position_embeddings", path)
    return options | {"max_source_positions": positions, "max_target_positions": positions}


def _generation(config: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the options of ``fairseq-generate`` for the folder's generation settings."""
    settings = {**_SEARCH} | {name: config[name] for name in _SEARCH if config.get(name) is not None}
    for name, value in settings.items():
        if type(value) not in (int, float, type(None)):
            raise InputError(f"{folder}: {name} in the generation settings is {shown(value)}, expected a number")
    options = {
        "beam": settings["num_beams"],
        "lenpen": settings["length_penalty"],
        "no-repeat-ngram-size": settings["no_repeat_ngram_size"],
        # Hugging Face counts the start symbol; fairseq counts neither it nor </s>.
        "min-len": max(0, settings["min_length"] - 1),
    }
    if settings["max_length"] is not None:
        options["max-len-b"] = settings["max_length"] - 2
    return as_arguments(options)


def _converted(
    weights: Mapping[str, Tensor],
    config: Mapping[str, Any],
    vocabulary: TranslationVocabulary,
    options: Mapping[str, Any],
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights with fairseq's names, and the options of the Transformer."""
    named = {name.removeprefix("model."): value.float() for name, value in weights.items()}
    bias = named.pop("final_logits_bias", None)
    encoder, decoder, output = _tables(named, config)
    start = None
    if not options["decoder_normalize_before"]:
        start = _start(decoder, config)
        named |= _positions(named, options["max_source_positions"], encoder.shape[1])
    tables = EmbeddingTables(encoder, decoder, output, start, None if bias is None else bias.flatten())
    embeddings, tied = tables.for_fairseq(vocabulary)
    versions = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    return {**named, **embeddings, **versions}, {**options, **tied}


def _tables(named: dict[str, Tensor], config: Mapping[str, Any]) -> list[Tensor]:
    """Remove the source, target and output embeddings from ``named``, and return them; tied ones are the same tensor.

    Shape:
        named: ``shared.weight`` and the other tables V×H
    """
    shared = named.pop("shared.weight", None)
    stored = [named.pop(name, None) for name in _TABLES]
    is_tied = config.get("tie_word_embeddings", True)
    is_joint = is_tied and config.get("share_encoder_decoder_embeddings", True)
    tables: list[Tensor] = []
    for group in ([0, 1, 2],) if is_joint else ([0], [1, 2]) if is_tied else ([0], [1], [2]):
        # A file may contain a tied table only once, under any of its names.
        candidates = [stored[number] for number in group] + ([shared] if is_joint else [])
        present = [table for table in candidates if table is not None]
        if not present:
            raise InputError(f"has no {_TABLES[group[0]]}; the file is incomplete")
        if not all(torch.equal(table, present[0]) for table in present[1:]):
            names = " and ".join(_TABLES[number] for number in group)
            raise InputError(
                f"{names} differ, but {CONFIG_FILE} says that they are one; correct its tie_word_embeddings and "
                "share_encoder_decoder_embeddings"
            )
        tables += [present[0]] * len(group)
    return tables


def _start(table: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Return the embedding of the decoder's start symbol."""
    start = config.get("decoder_start_token_id")
    if type(start) is not int or not 0 <= start < len(table):
        raise InputError(f"decoder_start_token_id in {CONFIG_FILE} is {shown(start)}, expected the number of a symbol")
    return table[start]


def _positions(named: Mapping[str, Tensor], length: int, width: int) -> dict[str, Tensor]:
    """Return Marian's tables of positions, preceded by fairseq's two unused rows."""
    positions = {}
    for side in ("encoder", "decoder"):
        name = f"{side}.embed_positions.weight"
        table = named.get(name)
        if table is None:
            table = _sinusoids(length, width)
        positions[name] = torch.cat([table.new_zeros(2, table.shape[1]), table])
    return positions


def _sinusoids(length: int, width: int) -> Tensor:
    """Return Marian's positions: sines in the first half of the columns, cosines in the second.

    Shape:
        result: T×H
    """
    angles = np.arange(length)[:, None] / np.power(10000, 2 * (np.arange(width) // 2) / width)
    return torch.from_numpy(np.concatenate([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], 1)).float()
