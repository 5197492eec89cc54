"""Pairs from translation memories (TMX), parsed as they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from fairseq_ext.corpora.compressed import open_binary, read_chunks, shown
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

# These hold a file format's own codes, not text; <hi> is the one inline element that holds text.
_CODES = {"bpt", "ept", "it", "ph", "ut"}
_UNKNOWN_ENCODING = expat.errors.codes[expat.errors.XML_ERROR_UNKNOWN_ENCODING]
_MAX_UNIT_BYTES = 16 << 20
_NAMED_LANGS = 10

# Language (lower case, with hyphens) and text of each version of a sentence.
Unit = list[tuple[str, str]]


def read_tmx(path: Path, langs: tuple[str, str], tally: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a TMX file, compressed or not; units without one of the languages are counted.

    A language stands for its variants too: ``en`` finds ``en-GB``, unless there is an ``en``. Of the markup
    in a segment only the text around it stays.

    Raises:
        InputError: if the XML is malformed (naming the line), is in an encoding that cannot be read, declares
            entities, or has no unit in both languages.
    """
    wanted = tuple(_normal(lang) for lang in langs)
    parser = _Parser(path)
    pairs = units = 0
    others: set[str] = set()
    for unit in parser.units():
        units += 1
        texts = [_text(unit, lang, other) for lang, other in (wanted, wanted[::-1])]
        if texts[0] is None or texts[1] is None:
            others.update(lang for lang, _ in unit if len(others) < _NAMED_LANGS)
            continue
        pairs += 1
        yield Pair(canonical(texts[0], tally), canonical(texts[1], tally))
    if not pairs:
        there = ", ".join(map(shown, sorted(others))) or "none"
        raise InputError(f"{path}: has no unit in both {langs[0]!r} and {langs[1]!r}; its languages: {there}")
    tally["lines"] += units
    tally["units_without_translation"] += units - pairs


class _Parser:
    """The state of the parse: where in a unit it is, and the units that are complete but not yet taken."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._complete: list[Unit] = []
        self._unit: Unit = []
        self._lang = ""
        self._encoding = "utf-8"
        self._segment: list[str] | None = None
        self._depth_of_codes = 0
        self._expat = expat.ParserCreate()
        self._expat.buffer_text = True
        self._expat.XmlDeclHandler = self._declaration
        self._expat.StartElementHandler = self._check_root
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._characters
        # Entities that stand for entities can fill any memory, and external ones name other files.
        self._expat.EntityDeclHandler = self._refuse_entity
        self._expat.SkippedEntityHandler = self._refuse_entity

    def units(self) -> Iterator[Unit]:
        """Yield the file's translation units."""
        unit_bytes = 0
        with open_binary(self._path, "rb") as file:
            for chunk in read_chunks(file, str(self._path)):
                self._parse(chunk, is_last=False)
                unit_bytes = 0 if self._complete else unit_bytes + len(chunk)
                if unit_bytes > _MAX_UNIT_BYTES:
                    raise self._error(f"no unit ends within {_MAX_UNIT_BYTES >> 20} MiB; is this a translation memory?")
                yield from self._take()
        self._parse(b"", is_last=True)
        yield from self._take()

    def _take(self) -> list[Unit]:
        complete, self._complete = self._complete, []
        return complete

    def _parse(self, chunk: bytes, is_last: bool) -> None:
        try:
            self._expat.Parse(chunk, is_last)
        except expat.ExpatError as error:
            if error.code == _UNKNOWN_ENCODING:
                raise self._encoding_error() from None
            reason = expat.ErrorString(error.code)
            raise self._error(f"malformed XML ({reason}, column {error.offset + 1}); mend or fetch it again") from None
        except (ValueError, LookupError):
            # So Python says that an encoding is unknown or has characters of more than one byte.
            raise self._encoding_error() from None

    def _error(self, message: str) -> InputError:
        return InputError(f"{self._path}, line {self._expat.CurrentLineNumber}: {message}")

    def _encoding_error(self) -> InputError:
        return self._error(
            f"its encoding {shown(self._encoding)!r} cannot be read; convert it to UTF-8, in its XML declaration too"
        )

    def _declaration(self, _: str, encoding: str | None, __: int) -> None:
        self._encoding = encoding or self._encoding

    def _check_root(self, name: str, _: dict[str, str]) -> None:
        if name != "tmx":
            raise self._error(f"<{shown(name)}> begins the file, so it is no TMX")
        self._expat.StartElementHandler = self._start

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._segment is not None:
            self._depth_of_codes += bool(self._depth_of_codes) or name in _CODES
        elif name == "tu":
            self._unit = []
        elif name == "tuv":
            self._lang = _normal(attributes.get("xml:lang") or attributes.get("lang") or "")
        elif name == "seg":
            self._segment = []

    def _end(self, name: str) -> None:
        if self._depth_of_codes:
            self._depth_of_codes -= 1
        elif name == "seg" and self._segment is not None:
            self._unit.append((self._lang, "".join(self._segment)))
            self._segment = None
        elif name == "tu":
            self._complete.append(self._unit)

    def _characters(self, text: str) -> None:
        if self._segment is not None and not self._depth_of_codes:
            self._segment.append(text)

    def _refuse_entity(self, name: str, *_: object) -> None:
        raise self._error(f"the entity {shown(name)!r} is not one of XML's own; write what it stands for instead")


def _text(unit: Unit, lang: str, other_lang: str) -> str | None:
    """The text in a language or, if there is none, in a variant of it that is not the other language."""
    for found, text in unit:
        if found == lang:
            return text
    for found, text in unit:
        if found.startswith(f"{lang}-") and found != other_lang:
            return text
    return None


def _normal(lang: str) -> str:
    return lang.replace("_", "-").lower()
