"""XLIFF, TMX, HTML, subtitles and plain text. All parts that are not filled in remain byte-identical."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple
from xml.parsers import expat

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.document import Edit, Filling, Parts, check_language, edit
from fairseq_ext.serve.runtime.markup import (
    attribute,
    element,
    is_empty,
    is_end,
    is_start,
    name_of,
    tokens,
    units,
    with_attribute,
)
from fairseq_ext.serve.runtime.pieces import split
from fairseq_ext.serve.runtime.tags import HTML, PLAIN, PREFORMATTED_XML, XML, runs
from fairseq_ext.text.languages import is_same_language

# States of XLIFF targets that are empty or copies of the source.
_UNTRANSLATED = ("new", "needs-translation", "initial")
_TAGS = re.compile(r"<!\[CDATA\[|\]\]>|<[^<>]*>")
_BEGINNINGS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"),
)  # fmt: skip
_DECLARED = re.compile(rb"""\s*<\?xml\b[^>]*?encoding\s*=\s*["']([\w.:-]+)""")
_BEFORE_META = re.compile(rb"\s*<(?!\?xml)")
_META = re.compile(rb"""<meta\s(?:[^>]*?[\s;"'])?charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)
_CUE = re.compile(r"([^\r\n]*\d\s*-->\s*\d[^\r\n]*\r?\n)((?:[^\r\n]+(?:\r?\n|\Z))+)")
# A sentence of subtitles goes on in the next line, unless another speaker begins.
_SPOKEN = PLAIN._replace(breaks=re.compile(r"\r?\n(?=[ \t]*[-–—])"))


def write_text(path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    """Write the parts in the encoding of the source; characters outside it become references."""
    encoding = _encoding_of(path)
    for part in parts:
        file.write(part.encode(encoding, "xmlcharrefreplace"))


def write_xml(path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    """Write a document by :func:`write_text`, and check that it is well-formed."""
    write_text(path, _well_formed(parts), file)


def _encoding_of(path: Path) -> str:
    """Return the encoding that a byte order mark, XML or HTML declares; UTF-8 by default."""
    with path.open("rb") as file:
        head = file.read(4096)
    for beginning, encoding in _BEGINNINGS:
        if head.startswith(beginning):
            return encoding
    declared = _DECLARED.match(head) or (_BEFORE_META.match(head) and _META.search(head))
    name = declared[1].decode("ascii") if declared else "utf-8"
    if name.lower().startswith("utf-16"):
        raise InputError("declares the encoding UTF-16, but has another; correct the declaration")
    return name


def read_text(path: Path) -> Iterator[str]:
    """Yield the text of a file losslessly, including line ends: encoding it again gives the same bytes."""
    name = _encoding_of(path)
    try:
        with path.open(encoding=name, newline="") as file:
            yield from iter(partial(file.read, 1 << 16), "")
    except LookupError:
        raise InputError(f"its encoding {name!r} is unknown; convert the file to UTF-8") from None
    except UnicodeDecodeError as error:
        raise InputError(f"is not valid {name} ({error.reason}); convert it to UTF-8") from None


def _well_formed(parts: Iterable[str]) -> Iterator[str]:
    """Yield the parts of an XML document, or raise an error if it is not well-formed.

    Expat limits entity expansion, and reads neither a DTD nor other files.
    """
    parser = expat.ParserCreate()
    try:
        for part in parts:
            parser.Parse(part, False)
            yield part
        parser.Parse("", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(f"line {error.lineno}: is not well-formed XML ({reason}); correct it") from None


def _xml_tokens(path: Path, root: str) -> Iterator[str]:
    is_begun = False
    for token in tokens(_well_formed(read_text(path))):
        if not is_begun and is_start(token):
            if name_of(token) != root:
                raise InputError(f"has no <{root}>; give another --input-format")
            is_begun = True
        yield token


def read_lines(path: Path, filling: Filling) -> Parts:
    """Parse plain text, of which each line is translated."""
    for part in re.split("(\\A\ufeff|\n)", "".join(read_text(path))):
        yield edit(part, filling)


def read_subtitles(path: Path, filling: Filling) -> Parts:
    """Parse subtitles in SubRip (``.srt``) and WebVTT (``.vtt``): the lines below those of times are translated."""
    text, end = "".join(read_text(path)), 0
    for cue in _CUE.finditer(text):
        yield text[end : cue.start(2)]
        yield edit(cue[2], filling, _SPOKEN)
        end = cue.end()
    if not end:
        raise InputError("has no times of subtitles; give an .srt or .vtt file")
    yield text[end:]


def read_html(path: Path, filling: Filling) -> Parts:
    """Parse HTML. The text of elements is translated. Of attributes, only the page's ``lang`` is changed."""
    for run, end in runs("".join(read_text(path)), HTML, filling.dialect):
        yield edit("".join(part.raw for part in run), filling, HTML)
        yield _html_start(end.raw, filling) if name_of(end.raw).lower() == "html" else end.raw


def _html_start(tag: str, filling: Filling) -> str:
    for name in ("lang", "xml:lang"):
        if code := attribute(tag, name):
            check_language(code, filling.languages[0], name)
            tag = with_attribute(tag, name, filling.code)
    return tag


class _Scope(NamedTuple):
    """What the elements around a part of XLIFF say about it."""

    is_translated: bool = True
    is_preformatted: bool = False

    def inside(self, tag: str) -> _Scope:
        translate, space = attribute(tag, "translate"), attribute(tag, "xml:space")
        return _Scope(
            self.is_translated if translate is None else translate != "no",
            self.is_preformatted if space is None else space == "preserve",
        )


def read_xliff(path: Path, filling: Filling) -> Parts:
    """Parse XLIFF 1.2 and 2. Each ``target`` is filled from its ``source``, and marked as machine translation."""
    scopes = [_Scope()]  # of the open elements
    for part in units(_xml_tokens(path, "xliff"), ("trans-unit", "segment")):
        if isinstance(part, list):
            yield _xliff_unit(part, filling, scopes[-1].inside(part[0]))
            continue
        if is_end(part):
            scopes.pop()
        elif is_start(part):
            part = _with_languages(part, filling)
            if not is_empty(part):
                scopes.append(scopes[-1].inside(part))
        yield part


def _with_languages(tag: str, filling: Filling) -> str:
    """Return a start tag with the target language, if it is one that has a source language."""
    for names in (("srcLang", "trgLang"), ("source-language", "target-language")):
        if name_of(tag) not in ("xliff", "file") or not attribute(tag, names[0]):
            continue
        for name, language in zip(names, filling.languages, strict=True):
            if code := attribute(tag, name):
                check_language(code, language, name)
        return tag if attribute(tag, names[1]) else with_attribute(tag, names[1], filling.code)
    return tag


def _xliff_unit(unit: list[str], filling: Filling, scope: _Scope) -> str | Edit:
    original = "".join(unit)
    source, target = element(unit, "source"), element(unit, "target")
    if source is None or not scope.is_translated or attribute(unit[0], "approved") == "yes":
        return original
    scope = scope.inside(unit[source[0]])
    last = element(unit, "seg-source") or source  # the source, in segments
    texts = _segments(unit[last[0] + 1 : last[1] - 1])
    done = _segments(unit[target[0] + 1 : target[1] - 1]) if target else []
    state = attribute(unit[target[0]], "state") if target else None
    is_kept = not filling.every and (state or attribute(unit[0], "state")) not in _UNTRANSLATED
    finished = {key: text for key, text in done if key is not None and is_kept and _TAGS.sub("", text).strip()}
    if finished and finished.keys().isdisjoint(key for key, _ in texts):
        return original  # it is segmented in another way
    syntax = PREFORMATTED_XML if scope.is_preformatted else XML
    segments = ((key, split(text, syntax, filling.dialect)) for key, text in texts if key not in (None, *finished))
    pieces = {key: segment for key, segment in segments if segment.texts}
    if not pieces:
        return original

    def write(translations: Sequence[str]) -> str:
        filled = finished | dict(zip(pieces, translations, strict=True))
        # The target's text between segments stays, if it has them all.
        is_whole = {key for key, _ in texts} <= {key for key, _ in done}
        parts = done if is_whole else texts
        text = "".join(part if key is None else filled.get(key, part) for key, part in parts)
        return _with_target(unit, source, target, last[1], text)

    return Edit(original, tuple(pieces.values()), write)


def _segments(content: Sequence[str]) -> list[tuple[str | None, str]]:
    """Return the text of each segment by its number, and the text between them, with None.

    Without segments, the whole content is one.
    """
    segments: list[tuple[str | None, str]] = [(None, "")]
    depth = 0
    for token in content:
        is_segment = name_of(token) == "mrk" and attribute(token, "mtype") == "seg" and is_start(token) and not depth
        if is_segment:
            start = token[:-2] + ">" if is_empty(token) else token
            segments += [(None, start), (attribute(token, "mid") or str(len(segments)), "")]
            depth = 1
            if not is_empty(token):
                continue
            token = f"</{token[1:].split()[0]}>"
        elif depth and is_start(token) and not is_empty(token):
            depth += 1
        depth -= bool(depth) and is_end(token)
        if segments[-1][0] is not None and not depth:
            segments.append((None, ""))
        segments[-1] = (segments[-1][0], segments[-1][1] + token)
    return segments if len(segments) > 1 else [("", segments[0][1])]


def _with_target(unit: list[str], source: tuple[int, int], target: tuple[int, int] | None, end: int, text: str) -> str:
    """Return a unit with a new target, which follows the token ``end`` - 1 if there was none."""
    first, prefix = unit[0], unit[source[0]][1:].partition("source")[0]
    tag = unit[target[0]].replace("/>", ">") if target else f"<{prefix}target>"
    if name_of(first) == "segment":
        first = with_attribute(with_attribute(first, "state", "translated"), "subState", "mt:unreviewed")
    else:
        tag = with_attribute(tag, "state", "needs-review-translation")
        tag = with_attribute(tag, "state-qualifier", "leveraged-mt")
    filled = f"{tag}{text}</{prefix}target>"
    if target:
        return "".join([first, *unit[1 : target[0]], filled, *unit[target[1] :]])
    space = unit[source[0] - 1] if unit[source[0] - 1].isspace() else ""
    return "".join([first, *unit[1:end], space, filled, *unit[end:]])


def read_tmx(path: Path, filling: Filling) -> Parts:
    """Parse TMX. Units without a target-language variant get one, with a property that names the system."""
    for part in units(_xml_tokens(path, "tmx"), ("tu",)):
        yield _tmx_unit(part, filling) if isinstance(part, list) else part


def _tmx_unit(unit: list[str], filling: Filling) -> str | Edit:
    original = "".join(unit)
    source, target = (_variant(unit, language) for language in filling.languages)
    if source is None or (target and _TAGS.sub("", _segment(unit, target)).strip() and not filling.every):
        return original
    pieces = split(_segment(unit, source), PREFORMATTED_XML, filling.dialect)
    if not pieces.texts:
        return original
    begin, end = target or (len(unit) - 1, len(unit) - 1)
    space = unit[source[0] - 1] if unit[source[0] - 1].isspace() and target is None else ""
    if space and unit[begin - 1].isspace():  # keep the blanks before </tu>
        begin = end = begin - 1
    name = "xml:lang" if attribute(unit[source[0]], "xml:lang") else "lang"
    prefix = unit[source[0]][1:].partition("tuv")[0]
    code, system = filling.code, html.escape(filling.system)

    def write(texts: Sequence[str]) -> str:
        prop = f'<{prefix}prop type="x-machine-translated">{system}</{prefix}prop>'
        start, *inner, last = unit[begin:end] or [f'<{prefix}tuv {name}="{code}">', f"</{prefix}tuv>"]
        place, after = element([start, *inner, last], "seg") or (1, 1)
        seg = f"<{prefix}seg>{texts[0]}</{prefix}seg>"
        made = "".join([start, prop, *inner[: place - 1], seg, *inner[after - 1 :], last])
        return "".join([*unit[:begin], space, made, *unit[end:]])

    return Edit(original, (pieces,), write)


def _variant(unit: list[str], language: str) -> tuple[int, int] | None:
    """Return where the last variant in a language is."""
    begin, variant = 0, None
    for index, token in enumerate(unit):
        if name_of(token) == "tuv" and is_start(token):
            begin = index
        elif name_of(token) == "tuv":
            code = attribute(unit[begin], "xml:lang") or attribute(unit[begin], "lang") or ""
            variant = (begin, index + 1) if is_same_language(code, language) else variant
    return variant


def _segment(unit: list[str], variant: tuple[int, int]) -> str:
    inside = unit[variant[0] : variant[1]]
    segment = element(inside, "seg")
    return "".join(inside[segment[0] + 1 : segment[1] - 1]) if segment else ""
