"""The files of a Marian model: weights, vocabularies, options of decoding and training, and Firefox's facts.

Known are folders of Marian itself (``model.npz`` with ``model.npz.decoder.yml``), of OPUS-MT's releases
(``decoder.yml``, ``*.vocab.yml``, ``source.spm``, ``target.spm``) and of Firefox (``*.bin.gz``, ``*.spm.gz``,
``metadata.json``). Paths in these files are used for their last part only.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.yaml_file import load_yaml
from fairseq_ext.convert.translation_vocabulary import (
    Side,
    TranslationVocabulary,
    check_own_pieces,
    in_order,
    marian_vocabulary,
)
from fairseq_ext.text.subwords import load_subwords

_PACKED = ".gz"
_LARGEST = 1 << 33  # bytes of a file, unpacked
MODEL_ENDINGS = (".npz", ".bin")
_SHORTLIST = re.compile(r"lex\..*\.bin")
_NO_MODEL = re.compile(rf".*\.optimizer\.npz|{_SHORTLIST.pattern}")
_DECODING = re.compile(r"decoder\.yml|config.*\.yml")
_SPM, _YML = ".spm", "vocab.yml"
# Endings of vocabularies that cannot be read.
_OTHER = {".fsv": "factored vocabularies", ".bpe": "merges of subword-nmt, as in the first releases of OPUS-MT,"}
_SIDES = ("src", "source"), ("trg", "tgt", "target")
# Firefox names models by two languages, as in model.enpt.intgemm.alphas.bin.
_PAIR = re.compile(r"model\.([a-z]{2})([a-z]{2})\..*")
_FIRST = ["</s>", "<unk>"]
# Without the C library, the same.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True)
class MarianFolder:
    """The files beside a model.

    Attributes:
        model: the file of the weights.
        files: all files of the folder by name, without ``.gz``.
        decoding: options of ``decoder.yml`` or ``config.yml``, if there is one.
    """

    model: Path
    files: Mapping[str, Path]
    decoding: Mapping[str, Any]

    @property
    def training(self) -> Mapping[str, Any]:
        """Options of the training, which Marian writes beside a model; empty if they were left out."""
        path = self.files.get(f"{_plain(self.model)}.yml")
        return load_yaml(path) if path else {}

    @property
    def shortlist(self) -> Path | None:
        """The lexical shortlist that the options of decoding name, or the only one."""
        named = [self.files.get(name) for name in _names(self.decoding, "shortlist")]
        shortlists = [path for name, path in self.files.items() if _SHORTLIST.fullmatch(name)]
        return next((path for path in named if path in shortlists), shortlists[0] if len(shortlists) == 1 else None)

    @property
    def inputs(self) -> list[Path]:
        """Files that an import reads."""
        small = (_YML, _SPM, ".yml", "metadata.json")
        paths = {self.model, self.shortlist, *(path for name, path in self.files.items() if name.endswith(small))}
        return sorted(path for path in paths if path is not None)

    def read_vocabulary(self, languages: Sequence[str | None]) -> TranslationVocabulary:
        """Read both vocabularies; languages that are None are taken from ``metadata.json`` or the model's name."""
        chosen = [language or recorded for language, recorded in zip(languages, self.languages, strict=True)]
        paths = self.vocabularies(chosen)
        pieces = [*paths]
        if paths[0].name.removesuffix(_PACKED).endswith(_YML):
            pieces = [*self._pair(_SPM, chosen)]
        source, target = (_read_side(*each) for each in zip(paths, pieces, strict=True))
        return marian_vocabulary(source, target, chosen, self.model)

    @property
    def languages(self) -> list[str | None]:
        """Source and target language as in ``metadata.json`` or the model's name; None where neither says it."""
        path, content = self.files.get("metadata.json"), {}
        if path is not None:
            content = read_json(path, "remove it, or give the folder as Mozilla publishes it")
        in_name = _PAIR.fullmatch(self.model.name)
        recorded = [content.get(f"{side}Language") for side in ("source", "target")]
        if not all(isinstance(language, str | None) for language in recorded):
            raise InputError(f"{path}: its languages are {shown(recorded)}; expected codes such as en")
        return [language or (in_name and in_name[side]) for side, language in enumerate(recorded, start=1)]

    def vocabularies(self, languages: Sequence[str | None]) -> Sequence[Path]:
        """Return the vocabularies of source and target that the options of decoding name, or else those found."""
        named = _names(self.decoding, "vocabs")
        if len(named) > 2:
            raise InputError(
                f"{self.model.parent}: has {len(named)} vocabularies; only models with one source are supported"
            )
        if len(named) == 2 and self.files.keys() >= set(named):
            return [self.files[name] for name in named]
        return self._pair(_YML if any(name.endswith(_YML) for name in self.files) else _SPM, languages)

    def _pair(self, ending: str, languages: Sequence[str | None]) -> Sequence[Path]:
        """Return the source's and the target's file with this ending; a single one serves both."""
        folder, names = self.model.parent, [name for name in sorted(self.files) if name.endswith(ending)]
        if len(names) == 1:
            return [self.files[names[0]]] * 2
        if not names:
            others = [(kind, name) for end, kind in _OTHER.items() for name in sorted(self.files) if name.endswith(end)]
            other = ", and {} ({}) are not supported".format(*others[0]) if others else ""
            raise InputError(
                f"{folder}: has no vocabulary *{ending}{other}; put the model's vocabulary beside {self.model.name}"
            )
        words = [(*side, f".{language}.") for side, language in zip(_SIDES, languages, strict=True)]
        sources, targets = ([name for name in names if any(word in name for word in side)] for side in words)
        if len(names) == 2 and 1 in (len(sources), len(targets)):
            is_source = names[0] in sources if len(sources) == 1 else names[0] not in targets
            return [self.files[name] for name in (names if is_source else reversed(names))]
        raise InputError(
            f"{folder}: has {len(names)} files *{ending} ({', '.join(names[:3])}), and it is not clear which is the "
            "source's; name them source and target"
        )


def find_files(source: Path) -> MarianFolder:
    """Find the files of a model, given its file or the folder."""
    if not source.exists():
        raise InputError(f"{source}: not found; give a .npz or .bin of Marian, or its folder")
    folder = source if source.is_dir() else source.parent
    files = {_plain(path): path for path in sorted(folder.iterdir(), reverse=True) if path.is_file()}
    model = "" if source.is_dir() else _plain(source)
    decoding = _decoding(files, model)
    model = model or _only_model(files, decoding, folder)
    return MarianFolder(files[model], files, decoding or _decoding(files, model))


def _plain(path: Any) -> str:
    """Return the last part of a path, without ``.gz``."""
    return Path(str(path)).name.removesuffix(_PACKED)


def _decoding(files: Mapping[str, Path], model: str) -> dict[str, Any]:
    """Return the options of decoding of a model, by default of any in the folder; empty if there are none."""
    of_model, wanted = f"{model}.decoder.yml", {model} if model else set(files)
    for name in sorted(files):
        if name == of_model or _DECODING.fullmatch(name):
            content = load_yaml(files[name])
            models = _names(content, "models")
            if not model and len(models) > 1:
                raise InputError(f"{files[name]}: names {len(models)} models; give the file of one of them")
            if name == of_model or wanted & set(models):
                return content
    return {}


def _names(content: Mapping[str, Any], key: str) -> list[str]:
    """Return the names of files in a list."""
    names = content.get(key)
    return [_plain(name) for name in names] if isinstance(names, list) else []


def _only_model(files: Mapping[str, Path], decoding: Mapping[str, Any], folder: Path) -> str:
    """Return the name of the folder's model."""
    models = [name for name in _names(decoding, "models") if name in files]
    models = models or sorted(
        name for name in files if Path(name).suffix in MODEL_ENDINGS and not _NO_MODEL.fullmatch(name)
    )
    if len(models) == 1:
        return models[0]
    what = f"{len(models)} models ({', '.join(models[:3])})" if models else "no model of Marian, a .npz or .bin"
    raise InputError(f"{folder}: has {what}; give the file of one")


def read_file(path: Path) -> bytes:
    """Return the bytes of a file, unpacked if it ends with ``.gz``."""
    try:
        with gzip.open(path) if path.suffix == _PACKED else path.open("rb") as file:
            data: bytes = file.read(_LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); copy or download the file again") from None
    if len(data) > _LARGEST:
        raise InputError(f"{path}: has more than the maximum of {_LARGEST >> 30} GiB")
    return data


def _read_side(vocabulary: Path, pieces: Path) -> Side:
    """Read the symbols of one side, and the SentencePiece model that splits its text."""
    data = read_file(pieces)
    if vocabulary == pieces:
        processor = load_subwords(pieces, data=data)
        symbols = in_order({processor.id_to_piece(number): number for number in range(len(processor))}, pieces)
    else:
        symbols = in_order(_numbers(vocabulary), vocabulary)
        check_own_pieces(pieces, symbols, data)
    if symbols[:2] != _FIRST:
        raise InputError(
            f"{vocabulary}: its first symbols are {shown(symbols[:2])}, but Marian's are {' and '.join(_FIRST)}; give "
            "the vocabulary of this model"
        )
    return Side(symbols, data)


def _numbers(path: Path) -> dict[str, int]:
    """Read ``vocab.yml``, the numbers of symbols, all of which are text for YAML's base loader."""
    try:
        content = yaml.load(read_file(path).decode("utf-8"), Loader=_LOADER)
        return {symbol: int(number) for symbol, number in content.items()}
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected symbols and their numbers ({reason}); copy the file again") from None
