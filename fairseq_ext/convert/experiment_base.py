"""The base model of an experiment: its initial checkpoint, subword models and dictionaries."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.origin import ORIGIN, Origin
from fairseq_ext.convert.checkpoints import OPTIONS_FILE, read_base
from fairseq_ext.convert.embedding_tables import add_symbols
from fairseq_ext.convert.fairseq_model import MODEL_FILE, Imported, write_checkpoint
from fairseq_ext.convert.marian_folder import find_files
from fairseq_ext.convert.marian_models import import_marian_model
from fairseq_ext.convert.translation_models import import_translation_model
from fairseq_ext.convert.translation_vocabulary import TOKENIZER_CONFIG_FILE, check_own_pieces
from fairseq_ext.data.language_tokens import STYLES, LanguageDictionary, language_tokens
from fairseq_ext.modules.pretrained import CONFIG_FILE, read_json
from fairseq_ext.text.languages import base_language
from fairseq_ext.text.lexicons import SHORTLIST_FILE
from fairseq_ext.text.subwords import LANGUAGE_TOKENS_FILE, model_of, own_model_name
from fairseq_ext.text.subwords import MODEL_FILE as SUBWORDS_FILE

Languages = tuple[str, str]


def write_base(
    source: Path,
    checkpoint: Path,
    vocabulary: Path,
    languages: Languages,
    told: Sequence[str | None],
    origin: Origin,
    tags: Sequence[str] = (),
) -> None:
    """Write a base in the form that experiments use.

    Args:
        source: folder of a Hugging Face translation model, folder or file of a Marian model, or folder of an imported
            model.
        checkpoint: file to write.
        vocabulary: folder to create, with dictionaries, SentencePiece models and language tokens.
        languages: the experiment's names of source and target language.
        told: the model's names of source and target language; None for the same name.
        origin: origin and licence, stored in the checkpoint and beside the vocabulary.
        tags: domain tags to add to the symbols, if the model does not have them.
    """
    quieten_fairseq()
    with TemporaryDirectory(dir=checkpoint.parent, prefix=".import-") as temporary:
        folder = Path(temporary)
        names = [own or name for own, name in zip(told, languages, strict=True)]
        if (source / CONFIG_FILE).is_file():
            _check_direction(source, languages)
            import_translation_model(source, folder, names)
            source = folder
        elif not (source / MODEL_FILE).is_file():
            _check_pair(source, names)
            import_marian_model(source, folder, names)
            source = folder
        model, _ = read_base(source / MODEL_FILE)
        vocabulary.mkdir()
        origin.write(vocabulary)
        style, added = _write_vocabulary(source, vocabulary, model, languages, told, tags)
        # Do not overwrite the imported checkpoint, whose weights are memory-mapped.
        (folder / "written").mkdir()
        arguments = [*model.arguments(languages, "multi_domain_translation"), "--language-tokens", style]
        facts = {ORIGIN: dataclasses.asdict(origin)}
        weights = add_symbols(model.weights, added) if added else model.weights
        write_checkpoint(folder / "written", weights, arguments, "LabelSmoothedCrossEntropyCriterion", facts)
        (folder / "written" / MODEL_FILE).replace(checkpoint)


def _check_direction(source: Path, languages: Languages) -> None:
    """Refuse a model whose configuration states the opposite translation direction."""
    path = source / TOKENIZER_CONFIG_FILE
    config = read_json(path) if path.is_file() else {}
    said = [str(config.get(key, "")) for key in ("source_lang", "target_lang")]
    # Match codes of two and three letters, such as "de" and "deu".
    if [base_language(code)[:2] for code in said] == [base_language(code)[:2] for code in reversed(languages)]:
        raise InputError(
            f"{path}: the model translates from {said[0]} to {said[1]}, but the experiment from {languages[0]} to "
            f"{languages[1]}; swap source_lang and target_lang, or give a model for the other direction"
        )


def _check_pair(source: Path, names: Sequence[str]) -> None:
    """Refuse a Marian model that names other languages than these."""
    files = find_files(source)
    for language, name in zip(files.languages, names, strict=True):
        if language and base_language(language)[:2] != base_language(name)[:2]:
            said = " to ".join(map(str, files.languages))
            raise InputError(
                f"{files.model}: translates from {said}, not from {' to '.join(names)}; give another model, or the "
                "languages by this model's names as source_lang and target_lang of base"
            )


def _write_vocabulary(
    source: Path,
    folder: Path,
    model: Imported,
    languages: Languages,
    told: Sequence[str | None],
    tags: Sequence[str],
) -> tuple[str, int]:
    """Write subword models and dictionaries; return the style of language tokens and the number of added tags."""
    options = _options_of(source)
    files = [options.get(f"--{side}-lang", own) for side, own in zip(("source", "target"), languages, strict=True)]
    names = [own or file for own, file in zip(told, files, strict=True)]
    style, more = options.get("--language-tokens", "none"), options.get("--langs", "")
    dictionaries = []
    for side, file, language in zip(("encoder", "decoder"), files, languages, strict=True):
        path = source / f"dict.{file}.txt"
        if not path.is_file():
            raise InputError(f"{path}: not found; put the dictionaries of a base next to it, named by its languages")
        dictionary = LanguageDictionary.load(str(path))
        if more:
            dictionary.add_languages(STYLES[style], more.split(","))
        rows = len(model.weights[f"{side}.embed_tokens.weight"])
        if len(dictionary) != rows:
            raise InputError(
                f"{path}: has {len(dictionary)} symbols, but the model's {side} has {rows}; "
                "give the dictionary of this model"
            )
        check_own_pieces(model_of(source, file), dictionary.symbols)
        for tag in tags:
            dictionary.add_symbol(tag)
        added = len(dictionary) - rows
        dictionary.save(str(folder / f"dict.{language}.txt"))
        dictionaries.append(dictionary)
    shutil.copyfile(source / SUBWORDS_FILE, folder / SUBWORDS_FILE)
    if (source / own_model_name(files[1])).is_file():
        shutil.copyfile(source / own_model_name(files[1]), folder / own_model_name(languages[1]))
    if (source / SHORTLIST_FILE).is_file():
        shutil.copyfile(source / SHORTLIST_FILE, folder / SHORTLIST_FILE)
    language_tokens(style, (names[0], names[1]), *dictionaries)
    if style != "none":
        (folder / LANGUAGE_TOKENS_FILE).write_text(" ".join([style, *names]) + "\n", encoding="utf-8")
    return style, added


def _options_of(source: Path) -> dict[str, str]:
    """Return the options in ``options.txt`` of an imported folder."""
    path = source / OPTIONS_FILE
    words = path.read_text(encoding="utf-8", errors="replace").split() if path.is_file() else []
    options = dict(zip(words[::2], words[1::2], strict=False))
    if options.get("--language-tokens", "none") not in (*STYLES, "none"):
        raise InputError(f"{path}: expected languages and language tokens as fairseq-ext import writes them")
    return options
