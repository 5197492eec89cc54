"""Reading, parsing and validation of untrusted request bodies, JSON or form data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email import message_from_string
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, ValidationError
from starlette.requests import Request as HttpRequest

from fairseq_ext.base.errors import InputError, line_of, shown
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.terms import Glossary, make_term
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.refusals import RefusedError
from fairseq_ext.text.placeholders import ANY, DIALECTS

_MOST_FIELDS = 64  # of a body, besides texts and terms
JSON, FORM, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"


class _Routed(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    domain: str | None = None
    route: str | None = None
    placeholders: str | None = None


class _Text(_Routed):
    text: str


def _as_text(item: Any) -> Any:
    return {"text": item} if isinstance(item, str) else item


class Body(_Routed):
    """Body of ``POST /translate`` in this project's format."""

    texts: Annotated[list[Annotated[_Text, BeforeValidator(_as_text)]], FailFast()] = Field(min_length=1)
    beam: int | None = None
    candidates: int = 1
    gates: Literal["weights", "layers", "tokens"] | None = None  # details in the answer, in increasing order
    terms: dict[str, Any] | None = None  # texts and lists of texts; checked one by one
    api_key: Any = None


@dataclass(frozen=True)
class Order:
    """Content of one HTTP request: texts with their routes, search settings, and the gate details to return."""

    requests: tuple[Request, ...]
    beam: int | None = None
    candidates: int = 1
    gates: str | None = None


class Upload(NamedTuple):
    """A file in a form."""

    name: str
    data: bytes


async def read_body(request: HttpRequest, limits: Limits, most: int) -> tuple[bytes, str]:
    """Return the body of a request, and its content type. Only an empty body may be neither JSON nor a form.

    Raises:
        RefusedError: 415 if the type is another, 413 if it is too large, 408 if it takes too long to arrive.
    """
    kind = request.headers.get("content-type", "")
    name = kind.partition(";")[0].strip().lower()
    body = bytearray()
    try:
        async with asyncio.timeout(limits.patience):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise RefusedError(413, f"the body is larger than {most} bytes; send less at once")
    except TimeoutError:
        raise RefusedError(
            408, f"the body took longer than {limits.patience:g} s to arrive", {"Connection": "close"}
        ) from None
    is_known = name in (JSON, FORM, MULTIPART) and request.headers.get("content-encoding", "identity") == "identity"
    if body and not is_known:
        raise RefusedError(
            415, f"the body is neither plain JSON nor a form; send Content-Type: {JSON} or {FORM}, not compressed"
        )
    return bytes(body), kind if name == MULTIPART else name


def read_content(data: bytes, limits: Limits, kind: str = JSON) -> Any:
    """Parse a body. A form gives an object, in which repeated keys have lists.

    Args:
        kind: content type; anything but a form is JSON.
    """
    is_form = kind.startswith((FORM, MULTIPART))
    try:
        _check_number_of_values(data, limits, kind)
        if is_form:
            found: dict[str, list[str | Upload]] = {}
            for key, value in _parts(data, kind) if kind.startswith(MULTIPART) else _fields(data):
                found.setdefault(key, []).append(value)
            return {key: values if len(values) > 1 else values[0] for key, values in found.items()}
        content = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once_each)
        if b"\\u" in data:  # JSON can contain lone surrogates, which are invalid text
            json.dumps(content, ensure_ascii=False).encode()
        return content
    except (ValueError, RecursionError) as error:
        kind = "a form" if is_form else "JSON"
        raise RefusedError(400, f"the body cannot be read as {kind}: {line_of(InputError(str(error)))}") from None


def _check_number_of_values(data: bytes, limits: Limits, kind: str) -> None:
    """Refuse a body with too many values before it is parsed. Each value of JSON but the first follows a comma."""
    separator = b"\n--" if kind.startswith(MULTIPART) else b"&" if kind.startswith(FORM) else b","
    most = _MOST_FIELDS + 4 * limits.max_texts + (limits.max_characters if separator == b"," else 0)
    if data.count(separator) > most:
        raise RefusedError(413, f"the body has too many values; send at most {limits.max_texts} texts at once")


def _fields(data: bytes) -> Iterator[tuple[str, str]]:
    yield from parse_qsl(data.decode("utf-8"), keep_blank_values=True, errors="strict")


def _parts(data: bytes, kind: str) -> Iterator[tuple[str, str | Upload]]:
    """Yield the names and values of the parts of a multipart form."""
    boundary = message_from_string(f"Content-Type: {kind}\n\n").get_boundary()
    if not boundary:
        raise ValueError("its Content-Type has no boundary")
    for part in (b"\r\n" + data).split(f"\r\n--{boundary}".encode())[1:]:
        if part.startswith(b"--"):
            return
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        headers = message_from_string(head.decode("utf-8").replace("\r\n", "\n") + "\n\n")
        name, file = headers.get_param("name", header="Content-Disposition"), headers.get_filename()
        if not isinstance(name, str):
            raise ValueError("a part has no name")
        yield name, value.decode("utf-8") if file is None else Upload(file, value)
    raise ValueError("its last boundary is missing")


def read_order(content: Any, system: SystemTranslator, limits: Limits, domain: str | None = None) -> Order:
    """Validate the body of ``POST /translate`` in this project's format.

    Args:
        domain: domain of texts for which the body names none.
    """
    try:
        body = Body.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ": ".join(map(str, first["loc"])) or "the body"
        raise RefusedError(422, f"{where}: {first['msg']}, got {shown(first['input'])}") from None
    route = _route(body, "the body", system) or domain
    terms = None if body.terms is None else _glossary(body.terms, limits)
    dialect = body.placeholders or ANY
    common = (route, terms, dialect, system)
    requests = [_request(text, f"texts[{index}]", *common) for index, text in enumerate(body.texts)]
    _check_size([request.text for request in requests], limits, "texts")
    most = {"beam": limits.max_beam, "candidates": body.beam or limits.max_beam}
    for key, value in (("beam", body.beam), ("candidates", body.candidates)):
        if value is not None and not 1 <= value <= most[key]:
            raise RefusedError(422, f'"{key}" is {shown(value)}; give a number from 1 to {most[key]}')
    return Order(tuple(requests), body.beam, body.candidates, body.gates)


def _check_size(texts: Sequence[str], limits: Limits, key: str) -> None:
    """Check the number of texts and their total length."""
    sizes = ((len(texts), limits.max_texts, "texts"), (sum(map(len, texts)), limits.max_characters, "characters"))
    for number, most, what in sizes:
        if number > most:
            raise RefusedError(413, f'"{key}" has {number} {what}; send at most {most} at once')


def domain_in(content: Mapping[str, Any], key: str, system: SystemTranslator, where: str = "the request") -> str | None:
    """Return the domain that a request names; None if it names none."""
    domain = content.get(key)
    if domain and domain not in domains_of(system):
        raise _unknown(f'{where}: unknown "{key}" {shown(domain)}', domains_of(system))
    return domain or None


def check_dialect(dialect: Any) -> str:
    """Return a dialect of placeholders after checking it."""
    if dialect not in DIALECTS:
        raise RefusedError(422, f'"placeholders" is {shown(dialect)}; give one of {", ".join(DIALECTS)}')
    return dialect


def domains_of(system: SystemTranslator) -> list[str]:
    """Return the domains that may be requested; none if the system does not use domains."""
    return [name for name in system.domains if name in system.routes]


def default_route(system: SystemTranslator, where: str) -> str:
    """Return the route of requests that name none, or raise an error if the system has no default."""
    if system.default_route is None:
        raise _unknown(f'{where}: {system.name} needs a "domain"', domains_of(system))
    return system.default_route


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} is given twice")
        found[name] = value
    return found


def _glossary(given: dict[str, Any], limits: Limits) -> Glossary:
    terms = {source: targets if isinstance(targets, list) else [targets] for source, targets in given.items()}
    for source, targets in terms.items():
        for target in targets:
            if not isinstance(target, str):
                raise RefusedError(422, f"terms: {shown(source)}: is {shown(target)}; give a text or a list of texts")
    _check_size([text for source, targets in terms.items() for text in (source, *targets)], limits, "terms")
    try:
        return Glossary(make_term(source, targets, f"terms, {shown(source)}") for source, targets in terms.items())
    except InputError as error:
        raise RefusedError(422, line_of(error)) from None


def _request(
    own: _Text, where: str, route: str | None, terms: Glossary | None, dialect: str, system: SystemTranslator
) -> Request:
    route = _route(own, where, system) or route or default_route(system, where)
    return Request(own.text, route, terms=terms, dialect=check_dialect(own.placeholders or dialect))


def _route(given: _Routed, where: str, system: SystemTranslator) -> str | None:
    """Return the route given by ``domain`` or ``route``; None if neither is given."""
    if given.domain is not None and given.route is not None:
        raise RefusedError(422, f'{where} has a "domain" and a "route"; give one of them')
    domain = domain_in({"domain": given.domain}, "domain", system, where)
    if given.route is not None and given.route not in system.routes:
        raise _unknown(f'{where}: unknown "route" {shown(given.route)}', system.routes)
    return domain or given.route


def _unknown(message: str, names: list[str]) -> RefusedError:
    remedy = f"choose one of {', '.join(names)}" if names else "this system has none"
    return RefusedError(422, f"{message}; {remedy}")
