"""What a step's directory is made from: recorded with it, so that one line can say what has changed since."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Among a step's options: those that were given on a command line, a list.
EXTRA = "extra"
_MOST_CHANGES = 3
_LONGEST_VALUE = 60


@dataclass(frozen=True)
class Origin:
    """What a directory is made from.

    Attributes:
        options: of its step.
        inputs: SHA-256 of the contents of its inputs, in the step's order.
    """

    options: Mapping[str, Any]
    inputs: Sequence[str]

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all of it; where the inputs lie does not matter."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """What JSON keeps of it, and reads again as the same."""
        return json.loads(self._text())

    def _text(self) -> str:
        description = {"options": dict(self.options), "inputs": list(self.inputs)}
        return json.dumps(description, sort_keys=True, ensure_ascii=False)


def read_origin(value: Any) -> Origin | None:
    """An origin of a JSON file; None where there is none, as in those of earlier versions."""
    if not isinstance(value, dict):
        return None
    options, inputs = value.get("options"), value.get("inputs")
    if not isinstance(options, dict) or not isinstance(inputs, list):
        return None
    return Origin(options, inputs)


def changes(before: Origin, now: Origin, inputs: Sequence[str]) -> str:
    """What differs between two origins, in words for one line.

    Args:
        before: that of a directory that is there.
        now: that of the directory to build.
        inputs: names of its inputs.
    """
    old, new = (dict(_leaves(origin.as_json()["options"])) for origin in (before, now))
    found = [
        f"{name} {_was(old, name)}, {_is(new, name)}"
        for name in [*old, *(name for name in new if name not in old)]
        if old.get(name) != new.get(name) or (name in old) != (name in new)
    ]
    if len(before.inputs) != len(inputs):
        found.append("it has other inputs")
    else:
        others = zip(inputs, before.inputs, now.inputs, strict=True)
        found += [f"its input {name} has changed" for name, then, hash_ in others if then != hash_]
    more = [f"{len(found) - _MOST_CHANGES} more changes"] if len(found) > _MOST_CHANGES else []
    return "; ".join([*found[:_MOST_CHANGES], *more])


def _leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value by the keys that lead to it."""
    for key, value in options.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{key}: ")
        elif key == EXTRA and isinstance(value, list):
            yield "command line", " ".join(map(str, value))
        else:
            yield f"{prefix}{key}", value


def _was(values: Mapping[str, Any], name: str) -> str:
    return f"was {_shown(values[name])}" if name in values else "was not given"


def _is(values: Mapping[str, Any], name: str) -> str:
    return f"is {_shown(values[name])}" if name in values else "is not given"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
