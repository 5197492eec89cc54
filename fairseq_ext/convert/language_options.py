"""How a many-language model of fairseq's was told the languages, as options of our task for translation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairseq_ext.inputs.errors import InputError, shown

_MBART_TASKS = ("translation_from_pretrained_bart", "multilingual_denoising")
_MANY = "translation_multi_simple_epoch"
_STYLES = {"multilingual": "m2m", "mbart": "mbart50"}


def language_options(options: Mapping[str, Any]) -> list[str]:
    """The options that let adapters be trained with the same language tokens; none for a model without them.

    Raises:
        InputError: if its language tokens are where the task does not put them.
    """
    task = options.get("task", options.get("_name"))
    if task in _MBART_TASKS:
        return ["--language-tokens", "mbart", *_languages(options)]
    if task != _MANY:
        return []
    style = _STYLES.get(str(options.get("lang_tok_style", "multilingual")))
    for name, wanted in {
        "encoder_langtok": "src",
        "decoder_langtok": True,
        "lang_tok_replacing_bos_eos": False,
    }.items():
        if options.get(name, wanted) != wanted or style is None:
            raise InputError(
                f"its option {name} is {shown(options.get(name))}; language tokens are put where --encoder-langtok src "
                "--decoder-langtok puts them, nowhere else"
            )
    return ["--language-tokens", str(style), *_languages(options)]


def _languages(options: Mapping[str, Any]) -> list[str]:
    found = options.get("langs")
    names = found.split(",") if isinstance(found, str) else found
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        return []
    return ["--langs", ",".join(names)]
