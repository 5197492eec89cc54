"""Import checkpoints of fairseq and of others as one of this project's, and export a domain as one of fairseq's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext.convert.domain_export import read_own, unfold
from fairseq_ext.convert.hugging_face import naming
from fairseq_ext.convert.transformer import Imported, read_transformer
from fairseq_ext.engine.fairseq_cli import quieten_fairseq
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
    """Write ``model.pt`` into an existing folder, and ``options.txt`` where the base needs language tokens."""
    quieten_fairseq()
    imported, options = read_base(source)
    imported.write(folder, _languages(options))
    if line := language_options(options):
        (folder / OPTIONS_FILE).write_text(" ".join(line) + "\n", encoding="utf-8")


def export_domain(checkpoint: Path, domain: str, folder: Path) -> None:
    """Write one domain of a checkpoint with plain adapters as a plain Transformer."""
    quieten_fairseq()
    weights, options = read_foreign_checkpoint(checkpoint)
    with naming(checkpoint):
        adapted = read_own(weights, options)
        adapted.check_shapes()
        plain = unfold(adapted, domain)
        plain.check_shapes()
    plain.write(folder, _languages(options))


def read_base(path: Path) -> tuple[Imported, dict[str, Any]]:
    """The base model of a checkpoint, whose shapes are checked, and its options."""
    weights, options = read_foreign_checkpoint(path)
    with naming(path):
        if any(is_adapter_key(name) for name in weights):
            raise InputError("has adapters; give the model that they were trained on")
        language_options(options)
        imported = read_transformer(weights, options)
        imported.check_shapes()
    return imported, options


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
    names = options.get("langs") or []
    names = names if isinstance(names, str) else ",".join(map(str, names))
    return ["--language-tokens", str(style), *(["--langs", names] if names else [])]


def _languages(options: Mapping[str, Any]) -> list[str | None]:
    found = [options.get(name) for name in ("source_lang", "target_lang")]
    return [language if isinstance(language, str) else None for language in found]
