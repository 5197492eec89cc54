"""The body of a request: JSON, or a form, that anybody may have written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from fairseq_ext.inputs.errors import InputError, line_of, shown
from fairseq_ext.runtime.requests import Request
from fairseq_ext.runtime.terms import Glossary, make_term
from fairseq_ext.serving.limits import Limits
from fairseq_ext.serving.refusals import RefusedError

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator

KEYS = ("texts", "domain", "route", "beam", "candidates", "gates", "terms", "api_key")
_OWN_KEYS = ("text", "domain", "route")
GATES = ("weights", "layers", "tokens")  # what is told of them; each tells more


@dataclass(frozen=True)
class Order:
    """What one request asks for: its texts with their routes, how to search, and what is told of gates."""

    requests: tuple[Request, ...]
    beam: int | None = None
    candidates: int = 1
    gates: str | None = None


def read_content(data: bytes, *, is_form: bool = False) -> Any:
    """What a body holds: of a form, an object; a key that is given several times has a list."""
    if not is_form:
        return _parsed(data)
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise RefusedError(400, "the body is no form in UTF-8; send key=value&key=value") from None
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: values if len(values) > 1 else values[0] for key, values in found.items()}


def read_order(content: Any, system: SystemTranslator, limits: Limits, domain: str | None = None) -> Order:
    """Read what ``POST /translate`` asks for in this project's own words; ``domain`` is where the body names none."""
    content = _object(content, "the body", KEYS)
    texts = content.get("texts")
    if not isinstance(texts, list) or not texts:
        raise RefusedError(422, f'"texts" is {shown(texts)}; give a list of at least one text: {{"texts": ["…"]}}')
    route = _route(content, "the body", system) or domain
    terms = _terms(content.get("terms"), limits)
    requests = tuple(_request(item, f"texts[{index}]", route, terms, system) for index, item in enumerate(texts))
    check_size([request.text for request in requests], limits, "texts")
    beam = None if content.get("beam") is None else check_count(content["beam"], "beam", 1, limits.max_beam)
    candidates = check_count(content.get("candidates", 1), "candidates", 1, beam or limits.max_beam)
    gates = content.get("gates")
    if gates not in (None, *GATES):
        raise RefusedError(422, f'"gates" is {shown(gates)}; give {_listed(GATES)}')
    return Order(requests, beam, candidates, gates)


def check_size(texts: Sequence[str], limits: Limits, key: str) -> None:
    """Check that these are not too many, and not too long."""
    if len(texts) > limits.max_texts:
        raise RefusedError(413, f'"{key}" has {len(texts)} texts; send at most {limits.max_texts} at once')
    characters = sum(map(len, texts))
    if characters > limits.max_characters:
        raise RefusedError(413, f'"{key}" has {characters} characters; send at most {limits.max_characters} at once')


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_once_each)
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"the body is not UTF-8 (byte {error.start + 1}); send JSON in UTF-8") from None
    except RecursionError:
        raise RefusedError(400, "the body nests too deeply; send one object with a list of texts") from None
    except ValueError as error:
        raise RefusedError(400, f"the body cannot be read as JSON: {line_of(InputError(str(error)))}") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{shown(name)} is given twice")
        found[name] = value
    return found


def _object(value: Any, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError(422, f"{where} is {shown(value)}; give an object with {_listed(keys)}")
    for key in value:
        if key not in keys:
            raise RefusedError(422, f"{where} has the key {shown(key)}; there are {_listed(keys)}")
    return value


def _terms(given: Any, limits: Limits) -> Glossary | None:
    """The terms of a request, by source a target or a list of such."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise RefusedError(422, f'"terms" is {shown(given)}; give an object of terms and their translations')
    terms = {source: targets if isinstance(targets, list) else [targets] for source, targets in given.items()}
    check_size([checked_text(each, "terms") for pair in terms.items() for each in (pair[0], *pair[1])], limits, "terms")
    try:
        return Glossary(make_term(source, targets, f"terms, {shown(source)}") for source, targets in terms.items())
    except InputError as error:
        raise RefusedError(422, line_of(error)) from None


def _request(item: Any, where: str, route: str | None, terms: Glossary | None, system: SystemTranslator) -> Request:
    own = {"text": item} if isinstance(item, str) else _object(item, where, _OWN_KEYS)
    own_route = _route(own, where, system) or route or system.default_route
    if own_route is None:
        raise _unknown(f'{where}: {system.name} has to be told the "domain"; give one of', domains_of(system))
    text = checked_text(own.get("text"), where)
    if len(text.splitlines()) > 1:
        raise RefusedError(422, f"{where} has several lines; send each as a text of its own")
    return Request(text, own_route, terms=terms)


def checked_text(value: Any, where: str) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise RefusedError(422, f"{where} is {shown(value)}; give a text")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RefusedError(422, f"{where}, character {error.start + 1}: half of a surrogate pair is no text") from None
    return value


def _route(given: dict[str, Any], where: str, system: SystemTranslator) -> str | None:
    """The route by either of its keys; None if there is none."""
    domain, route = given.get("domain"), given.get("route")
    if domain is None and route is None:
        return None
    if domain is not None and route is not None:
        raise RefusedError(422, f'{where} has a "domain" and a "route"; give one of them')
    if domain is not None:
        check_domain(domain, where, system)
    if route is not None and route not in system.routes:
        raise _unknown(f'{where}: "route" {shown(route)} is none of', system.routes)
    return str(domain or route)


def check_domain(domain: Any, where: str, system: SystemTranslator) -> None:
    """Check that a system has a domain."""
    if domain not in domains_of(system):
        raise _unknown(f'{where}: "domain" {shown(domain)} is none of', domains_of(system))


def domains_of(system: SystemTranslator) -> list[str]:
    """Those that may be asked for; a system without adapters has none."""
    return [name for name in system.domains if name in system.routes]


def _unknown(message: str, names: list[str]) -> RefusedError:
    return RefusedError(422, f"{message} {', '.join(names) or '(there are none)'}")


def check_count(value: Any, key: str, least: int, most: int) -> int:
    """A value that must be a whole number between two others."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise RefusedError(422, f'"{key}" is {shown(value)}; give a number from {least} to {most}')
    return value


def _listed(keys: tuple[str, ...]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
