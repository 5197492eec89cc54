"""Sections of an experiment file as pydantic models: strict, and with mistakes as one line with file and key.

A validator of a model raises ``ValueError``; :func:`read_model` puts the file and the key in front and makes it an
:class:`~fairseq_ext.inputs.errors.InputError`.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Strict,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from fairseq_ext.inputs.errors import InputError, shown

LARGEST = 1 << 31  # of a number in C libraries
# Parts of pydantic's locations that are no keys of the file; ``options`` is a field of systems. Those in brackets are
# pydantic's ``[key]`` and the tags of unions.
_NO_KEYS = ("options",)

_Model = TypeVar("_Model", bound=BaseModel)


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-5, which has no dot, as text."""
    return float(value) if isinstance(value, str) else value


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A list as a tuple, a single value as a tuple of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


_Item = TypeVar("_Item")
Number = Annotated[
    float,
    BeforeValidator(_number),
    Field(allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"], "pattern": r"^[-+0-9.eE_]+$"}),
]
File = Annotated[Path, Strict(False), WithJsonSchema({"type": "string"})]
Count = Annotated[int, Field(ge=1, lt=LARGEST)]
Seed = Annotated[int, Field(ge=0, lt=LARGEST)]
Several = Annotated[tuple[_Item, ...], BeforeValidator(as_tuple)]
OneOrMore = Annotated[Several[_Item], Field(min_length=1)]


class _WithoutTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """A title would only repeat the key."""
        return False


class Section(BaseModel):
    """A part of an experiment file: an unknown key is an error, a value is not converted to another type."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
    )

    removed_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions that are still accepted and ignored, each with what replaces it."""
    renamed_keys: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions that are still accepted, each with its name of today."""

    @classmethod
    def keys(cls) -> set[str]:
        """The keys that the section may have."""
        return {item.alias or name for name, item in cls.model_fields.items()}

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema, by which editors complete keys and mark mistakes."""
        return cls.model_json_schema(schema_generator=_WithoutTitles)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"the key {shown(key)} is no text; put it in quotes")
            if key not in {*cls.keys(), *cls.model_fields, *cls.removed_keys, *cls.renamed_keys}:
                raise ValueError(_unknown_key(key, cls.keys()))
            path = (info.context or {}).get("path", "")
            if key in cls.removed_keys:
                print(f"{path}: {key}: is no longer used: {cls.removed_keys[key]}", file=sys.stderr)
            if key in cls.renamed_keys:
                print(f"{path}: {key}: is now {cls.renamed_keys[key]}", file=sys.stderr)
        return {cls.renamed_keys.get(key, key): each for key, each in value.items() if key not in cls.removed_keys}


class _Generated(Section):
    """A section whose keys are described where they are generated: pydantic need not look for its source."""

    model_config = ConfigDict(use_attribute_docstrings=False)


class FromDataclass:
    """Annotation of a field that holds a dataclass of a library: the file gives its attributes as a section.

    Types are as strict as those of sections; the dataclass makes its own checks, which raise InputError.
    """

    def __get_pydantic_core_schema__(self, source: type[Any], handler: GetCoreSchemaHandler) -> Any:
        """The schema of the section, followed by the making of the dataclass."""
        make = AfterValidator(lambda given: _make(source, given))
        return handler.generate_schema(Annotated[_section_of(source), make])


EMPTY_AS_DEFAULTS = BeforeValidator(lambda value: {} if value is None else value)
"""Annotation of a section that has its defaults where the file has nothing under its key."""


def read_model(model: type[_Model], content: Any, where: str, context: Mapping[str, Any]) -> _Model:
    """Make a model of plain data.

    Args:
        model: the pydantic model.
        content: of the file, or of a section.
        where: the file, and the section if it is one, for messages.
        context: for validators: ``path``, the file.

    Raises:
        InputError: naming the file and the key of the first mistake.
    """
    try:
        return model.model_validate(content, context=dict(context))
    except ValidationError as error:
        raise InputError(_line_of(error.errors(include_url=False)[0], where)) from None


def _line_of(mistake: Mapping[str, Any], where: str) -> str:
    location = mistake["loc"]
    if location[-1:] == ("[key]",) and not isinstance(mistake["input"], str):
        location = location[:-2]  # pydantic writes False as 0 there
    keys = [str(part) for part in location if part not in _NO_KEYS and not str(part).startswith("[")]
    return ": ".join([where, *keys, _words_of(mistake)])


def _words_of(mistake: Mapping[str, Any]) -> str:
    kind, value = mistake["type"], shown(mistake["input"])
    if kind == "value_error":
        return str(mistake["ctx"]["error"])
    if mistake["loc"][-1:] == ("[key]",) and kind == "string_type":
        return f"the key {value} is no text; put it in quotes"
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "dict_type", "mapping_type"):
        return f"expected keys and values, got {value}"
    text = mistake["msg"]
    return f"{text[0].lower()}{text[1:]}, got {value}"


def _unknown_key(key: str, allowed: Collection[str]) -> str:
    near = difflib.get_close_matches(key, sorted(allowed), n=1)
    nearest = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key {shown(key)}; allowed are {', '.join(sorted(allowed))}{nearest}"


def _section_of(source: type[Any]) -> type[Section]:
    """The section with the attributes of a dataclass."""
    hints, texts = get_type_hints(source, include_extras=True), _documented_attributes(source)
    fields: dict[str, Any] = {
        item.name: (_field_type(hints[item.name]), Field(_default(item), description=texts.get(item.name)))
        for item in dataclasses.fields(source)
    }
    return create_model(source.__name__, __base__=_Generated, __doc__=_summary(source), **fields)


def _field_type(hint: Any) -> Any:
    if get_origin(hint) is Annotated:
        kind, *limits = get_args(hint)
        return Annotated[(_field_type(kind), *limits)]
    if any(get_origin(each) is Annotated for each in get_args(hint)):
        return _field_type(get_args(hint)[0]) | None
    if float in (hint, *get_args(hint)):
        return Number if hint is float else Number | None
    if any(str(each).startswith("list[") for each in (hint, *get_args(hint))):
        return Annotated[hint, BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]
    return hint


def _default(item: dataclasses.Field[Any]) -> Any:
    if item.default_factory is not dataclasses.MISSING:
        return item.default_factory()
    return ... if item.default is dataclasses.MISSING else item.default


def _summary(source: type[Any]) -> str:
    """The first paragraph of the docstring of a class."""
    return " ".join((inspect.getdoc(source) or "").partition("\n\n")[0].split())


def _documented_attributes(source: type[Any]) -> dict[str, str]:
    """The text of each attribute in the docstring of a class."""
    listed = (inspect.getdoc(source) or "").partition("Attributes:\n")[2] + "\n"
    entries = re.findall(r"^    (\w+): (.*\n(?:      .*\n)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def _make(source: type[Any], given: Section) -> Any:
    try:
        return source(**{name: getattr(given, name) for name in type(given).model_fields})
    except InputError as error:
        raise ValueError(str(error)) from None
