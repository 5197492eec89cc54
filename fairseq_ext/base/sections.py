"""Sections of an experiment file as strict pydantic models, with one-line errors that give the file and key.

Validators of a model raise ``ValueError``; :func:`read_model` prepends the file and the key, and raises an
:class:`~fairseq_ext.base.errors.InputError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from fairseq_ext.base.errors import InputError, shown

LARGEST = 1 << 31  # exclusive limit of integers, for C libraries
# Parts of pydantic's locations that are not keys of the file; ``options`` is a field of systems. Parts in brackets
# (pydantic's ``[key]`` and the tags of unions) are not keys either.
_NO_KEYS = ("options",)

_Model = TypeVar("_Model", bound=BaseModel)


def _number(value: Any) -> Any:
    """Convert text to a number: YAML 1.1 reads 1e-5, without a dot, as text."""
    return float(value) if isinstance(value, str) else value


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a list as a tuple, and a single value as a tuple of one."""
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


class _SchemaForEditors(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles, which would only repeat the key."""
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Use the first paragraph of a docstring as description of a section."""
        made = super().model_schema(schema)
        if "description" in made:
            made["description"] = made["description"].partition("\n\n")[0]
        return made


class Section(BaseModel):
    """A section of an experiment file: unknown keys are errors, and values are not converted to other types."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        validate_by_name=True,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
    )

    @classmethod
    def keys(cls) -> set[str]:
        """Return the allowed keys of the section."""
        return {item.alias or name for name, item in cls.model_fields.items()}

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON schema, with which editors complete keys and mark errors."""
        return cls.model_json_schema(schema_generator=_SchemaForEditors)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):
                raise ValueError(f"the key {shown(key)} is not text; put it in quotes")
            if key not in {*cls.keys(), *cls.model_fields}:
                raise ValueError(_unknown_key(key, cls.keys()))
        return value


EMPTY_AS_DEFAULTS = BeforeValidator(lambda value: {} if value is None else value)
"""Annotation of a section that takes its defaults if its key has no value in the file."""


def read_model(model: type[_Model], content: Any, where: str, context: Mapping[str, Any]) -> _Model:
    """Validate the plain data of a file or section as a pydantic model.

    Args:
        where: file and, for a section, its key, as the start of error messages.
        context: context for validators: ``path``, the file.
    """
    try:
        return model.model_validate(content, context=dict(context))
    except ValidationError as error:
        raise InputError(_line_of(error.errors(include_url=False)[0], where)) from None


def _line_of(mistake: Mapping[str, Any], where: str) -> str:
    location = mistake["loc"]
    if location[-1:] == ("[key]",) and not isinstance(mistake["input"], str):
        location = location[:-2]  # pydantic shows the key False as 0
    keys = [str(part) for part in location if part not in _NO_KEYS and not str(part).startswith("[")]
    return ": ".join([where, *keys, _words_of(mistake)])


def _words_of(mistake: Mapping[str, Any]) -> str:
    kind, value = mistake["type"], shown(mistake["input"])
    if kind == "value_error":
        return str(mistake["ctx"]["error"])
    if mistake["loc"][-1:] == ("[key]",) and kind == "string_type":
        return f"the key {value} is not text; put it in quotes"
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "dict_type", "mapping_type"):
        return f"expected keys and values, got {value}"
    text = mistake["msg"]
    return f"{text[0].lower()}{text[1:]}, got {value}"


def _unknown_key(key: str, allowed: Collection[str]) -> str:
    near = difflib.get_close_matches(key, sorted(allowed), n=1)
    nearest = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key {shown(key)}; choose one of {', '.join(sorted(allowed))}{nearest}"
