"""Import checkpoints of fairseq and of others as one of this project's, and export a domain as one of fairseq's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fairseq_ext.convert.domain_export import read_own, unfold
from fairseq_ext.convert.hugging_face import naming
from fairseq_ext.convert.transformer import Imported, read_transformer
from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.inputs.domain_names import DOMAINS_FILE
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.patches.checkpoints import read_foreign_checkpoint

OPTIONS_FILE = "options.txt"
# Tasks of fairseq with language tokens, and what our task calls the places of these.
_MBART_TASKS = ("translation_from_pretrained_bart", "multilingual_denoising")
_MANY = "translation_multi_simple_epoch"
_STYLES = {"multilingual": "m2m", "mbart": "mbart50"}
_LANGUAGE_TOKENS = {"encoder_langtok": "src", "decoder_langtok": True, "lang_tok_replacing_bos_eos": False}


def import_checkpoint(source: Path, folder: Path) -> None:
    """Convert a checkpoint.

    Args:
        source: the checkpoint.
        folder: where to write ``model.pt``; it must exist. Beside it ``domains.txt`` names adapters, and
            ``options.txt`` has the options that language tokens of a base need.
    """
    quieten_fairseq()
    imported, options = read_checkpoint(source)
    imported.write(folder, _languages(source, options))
    if imported.names:
        (folder / DOMAINS_FILE).write_text("".join(f"{name}\n" for name in imported.names), encoding="utf-8")
    elif line := language_options(options):
        (folder / OPTIONS_FILE).write_text(" ".join(line) + "\n", encoding="utf-8")


def export_domain(checkpoint: Path, domain: str, folder: Path) -> None:
    """Write one domain of a checkpoint with plain adapters as a plain Transformer."""
    quieten_fairseq()
    imported, options = read_checkpoint(checkpoint)
    with naming(checkpoint):
        plain = unfold(imported, domain)
        plain.check_shapes()
    plain.write(folder, _languages(checkpoint, options))


def language_options(options: Mapping[str, Any]) -> list[str]:
    """The options with which adapters are trained with a base's language tokens; none for a base without them."""
    task = options.get("task", options.get("_name"))
    if task not in (*_MBART_TASKS, _MANY):
        return []
    style = "mbart" if task != _MANY else _STYLES.get(str(options.get("lang_tok_style", "multilingual")))
    wrong = [name for name, wanted in _LANGUAGE_TOKENS.items() if options.get(name, wanted) != wanted]
    if task == _MANY and (wrong or style is None):
        name = (wrong or ["lang_tok_style"])[0]
        raise InputError(
            f"its option {name} is {shown(options.get(name))}; language tokens are put where --encoder-langtok src "
            "--decoder-langtok puts them, nowhere else"
        )
    names = options.get("langs")
    names = names.split(",") if isinstance(names, str) else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        names = []
    return ["--language-tokens", str(style), *(["--langs", ",".join(names)] if names else [])]


def read_checkpoint(path: Path) -> tuple[Imported, dict[str, Any]]:
    """A checkpoint's model, whose shapes are checked, and its options."""
    weights, options = read_foreign_checkpoint(path)
    with naming(path):
        imported = _recognised(weights, options)
        imported.check_shapes()
    return imported, options


def _recognised(weights: dict[str, Tensor], options: dict[str, Any]) -> Imported:
    if any(is_adapter_key(name) for name in weights):
        return read_own(weights, options)
    language_options(options)
    return read_transformer(weights, options)


def _languages(path: Path, options: Mapping[str, Any]) -> list[str | None]:
    found = [options.get(name) for name in ("source_lang", "target_lang")]
    for language in found:
        if not isinstance(language, str | None) or (language or "").startswith("-"):
            raise InputError(f"{path}: its languages are {shown(found)}, expected their names")
    return found
