"""Formats that translate-toolkit and ruamel.yaml read and write, where they are installed: the extra ``formats``.

Files in one language are translated in place. Qt's ``.ts`` has two languages: its unfinished messages are filled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.documents.document import Filling, Format, Parts, check_language, edit
from fairseq_ext.serve.documents.markup_documents import read_text
from fairseq_ext.serve.runtime.tags import MARKDOWN

# Module and class of translate.storage; the last one is for other encodings than UTF-8.
_CLASSES = {
    "android": ("aresource.AndroidResourceFile",),
    "strings": ("properties.stringsutf8file", "properties.stringsfile"),
    "properties": ("properties.javautf8file", "properties.javafile"),
    "resx": ("resx.RESXFile",),
    "qt": ("ts2.tsfile",),
}
# What is not to be translated.
_OTHERS: dict[str, Callable[[Any], Any]] = {
    "android": lambda unit: re.fullmatch(r"[@?][\w.:+]*/?[\w.]+", unit.source),  # names another resource
    "qt": lambda unit: unit.isobsolete(),
    # Objects, and names of a form's controls.
    "resx": lambda unit: {"type", "mimetype"} & {*unit.xmlelement.keys()} or unit.getid().startswith(">>"),
}


def _module(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"is {name}, which needs translate-toolkit ({error}); install it with pip install 'fairseq-ext[formats]'"
        ) from None


def _guarded(name: str, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except Exception as error:  # parsers raise errors of many kinds
        raise InputError(f"cannot be read as {name} ({error}); correct it") from None


def _store(name: str, data: bytes) -> Any:
    """Parse a file."""
    which = 0
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        which = -1
    module, _, kind = _CLASSES[name][which].partition(".")
    parse = getattr(_module(name, f"translate.storage.{module}"), kind).parsestring
    store = _guarded(name, lambda: parse(data))
    for item in store.body.iterfind("string-array/item") if name == "android" else ():
        if item.getparent().get("translatable") != "false":
            unit = store.UnitClass(None, xmlelement=item)
            unit.SINGULAR_TAG = item.tag
            store.addunit(unit, new=False)
    return store


def _units(name: str, store: Any) -> Iterator[Any]:
    """Yield the units that can be translated."""
    for unit in store.units:
        is_item = name == "android" and unit.xmlelement.tag == "item"  # of an array; it has no name
        is_text = isinstance(unit.source, str) and (is_item or unit.istranslatable()) and not unit.isheader()
        if is_text and not _OTHERS.get(name, lambda _: False)(unit):
            yield unit


def _strings(text: Any) -> list[str]:
    """Return a text, or each of its plural forms."""
    return [str(each) for each in getattr(text, "strings", [text])]


def _read(name: str, path: Path, filling: Filling) -> Parts:
    store = _store(name, path.read_bytes())
    if name == "qt" and (language := store.gettargetlanguage()):
        check_language(language, filling.languages[1], "language")
    for unit in _units(name, store):
        is_done = name == "qt" and unit.istranslated() and not filling.every
        for text in _strings(unit.source):
            yield text if is_done else edit(text, filling)


def _write(name: str, path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    data, left = path.read_bytes(), iter(parts)
    store = _store(name, data)
    for unit in _units(name, store):
        old = _strings(unit.source)
        new = [next(left) for _ in old]
        if new != old:
            _fill(name, unit, new)
    list(left)  # checks that no translation is left
    written = bytes(store)
    if _shape(store) != _shape(_store(name, written)):
        raise InputError(f"would not be read again as {name}; report the file")
    if name == "properties" and data.isascii():  # Java before 9 reads nothing else
        written = re.sub("[^\0-\x7f]", lambda found: json.dumps(found[0])[1:-1], written.decode()).encode()
    file.write(written)


def _shape(store: Any) -> list[tuple[str, int, int]]:
    """Return what a translation does not change: the units, and their numbers of plural forms."""
    return [(unit.getid(), len(_strings(unit.source)), len(_strings(unit.target))) for unit in store.units]


def _fill(name: str, unit: Any, texts: list[str]) -> None:
    forms = len(_strings(unit.target))
    plural = import_module("translate.misc.multistring").multistring
    if name in ("strings", "properties"):
        unit.source = texts[0]
    elif hasattr(unit.target, "strings"):  # Qt's source has one form, and its translation those of the language
        unit.target = plural((texts * forms)[:forms])
        if name == "qt":
            unit.markfuzzy()
    else:
        unit.target = texts[0]


def _read_yaml(path: Path, filling: Filling) -> Parts:
    for holder, key in _values(_loaded(path)[0]):
        yield edit(holder[key], filling)


def _write_yaml(path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    content, yaml = _loaded(path)
    for (holder, key), text in zip(_values(content), parts, strict=True):
        if text != holder[key]:
            holder[key] = type(holder[key])(text)  # in the same quotes
    yaml.dump(content, file)


def _loaded(path: Path) -> tuple[Any, Any]:
    """Return the content of a YAML file, and a writer that keeps its form."""
    module, data = _module("yaml", "ruamel.yaml"), path.read_text(encoding="utf-8")
    nested, item = re.search(r"^( +)[^\s#-]", data, re.M), re.search(r"^( *).*:\s*\n\1( *)(-\s+)", data, re.M)
    yaml = module.YAML()
    yaml.preserve_quotes, yaml.width = True, 1 << 20
    offset, dash = (len(item[2]), len(item[3])) if item else (0, 2)
    yaml.indent(mapping=len(nested[1]) if nested else 2, sequence=offset + dash, offset=offset)
    return _guarded("yaml", lambda: yaml.load(data)), yaml


def _values(holder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places of all strings, each a container and a key."""
    pairs = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
    for key, value in list(pairs):
        if isinstance(value, str):
            yield holder, key
        yield from _values(value)


# What the parser of Markdown would write in another way, such as &lt;b&gt; as a tag.
_HELD = re.compile(r"&(?:#\w+|\w+);|\u00a0|\\\|")
_FRONT = re.compile(r"(?:\+\+\+\n.*?\n\+\+\+\n)?", re.DOTALL)  # in TOML; the parser knows those in YAML


def _markdown(path: Path, translate: Callable[[str], str]) -> bytes:
    """Return a Markdown file with its texts replaced."""
    written = "".join(read_text(path))
    text = written.replace("\r\n", "\n")
    front = _FRONT.match(text)[0]  # type: ignore[index]
    free = (char for char in map(chr, range(0xE000, 0xF900)) if char not in text)
    held = dict(zip(dict.fromkeys(_HELD.findall(text)), free, strict=False))
    shown = {ord(char): part for part, char in held.items()}

    def hidden(text: str) -> str:
        return _HELD.sub(lambda found: held.get(found[0], found[0]), text)

    kind = _module("markdown", "translate.storage.markdown").MarkdownFile
    store = kind(
        callback=lambda text: hidden(translate(text.translate(shown))),
        extract_code_blocks=False,
        extract_frontmatter=False,
        no_placeholders=True,
    )
    _guarded("markdown", lambda: store.parse(hidden(text[len(front) :]).encode()))
    made = front + store.filesrc.translate(shown)
    return (made.replace("\n", "\r\n") if "\r\n" in written else made).encode()


def _read_markdown(path: Path, filling: Filling) -> Parts:
    texts: list[str] = []
    _markdown(path, lambda text: texts.append(text) or text)  # type: ignore[func-returns-value]
    yield from (edit(text, filling, MARKDOWN) for text in texts)


def _write_markdown(path: Path, parts: Iterable[str], file: IO[bytes]) -> None:
    left = iter(list(parts))  # the parser does not allow another one meanwhile
    written = _markdown(path, lambda _: next(left))
    file.write(written)


FORMATS = {name: Format(partial(_read, name), partial(_write, name)) for name in _CLASSES}
FORMATS["yaml"] = Format(_read_yaml, _write_yaml)
FORMATS["markdown"] = Format(_read_markdown, _write_markdown)
