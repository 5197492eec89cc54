"""Weights of features, in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.reranking.nbest import NBest

_REMEDY = 'expected {"weights": {"FEATURE": NUMBER, …}}, as tune writes it'


@dataclass(frozen=True)
class Weights:
    """What re-ranking multiplies features by.

    Attributes:
        values: by feature.
        sources: of features that language models give, the fingerprints of these.
        about: how the weights were found.
    """

    values: Mapping[str, float]
    sources: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Weights:
        """Read a file that :meth:`write` wrote, or one by hand, of which ``weights`` alone is needed.

        Raises:
            InputError: if it is no such file.
        """
        content = read_json(path, _REMEDY)
        values, sources, about = (content.get(key, {}) for key in ("weights", "sources", "about"))
        if not isinstance(values, dict) or not values or not all(map(_is_weight, values.values())):
            raise InputError(f"{path}: weights must be finite numbers by name, at least one; {_REMEDY}")
        if not isinstance(sources, dict) or not isinstance(about, dict):
            raise InputError(f"{path}: sources and about must be names and values; {_REMEDY}")
        return cls({name: float(value) for name, value in values.items()}, sources, about)

    def write(self, path: Path) -> None:
        """Write JSON."""
        content = {"weights": dict(self.values), "sources": dict(self.sources), "about": dict(self.about)}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def for_list(self, nbest: NBest, sources: Mapping[str, str], path: Path) -> np.ndarray:
        """The weights in the order of a list's features, zero for those that the file does not name: F.

        Args:
            nbest: the list.
            sources: fingerprints of the language models that some of its features are of.
            path: the file, for messages.

        Raises:
            InputError: if the list lacks a feature, or has one of another language model.
        """
        for name in self.values:
            if name not in nbest.names:
                raise InputError(
                    f"{path}: feature {name!r} is not in the list, which has {', '.join(nbest.names)}; "
                    "give the --lm, --arpa or --word-count that the weights were tuned with"
                )
            if self.sources.get(name, sources.get(name)) != sources.get(name):
                raise InputError(
                    f"{path}: the weight of {name!r} was tuned for another language model, or other subwords or "
                    "paths; give those, or tune again"
                )
        return self.in_order(nbest.names)

    def in_order(self, names: Sequence[str]) -> np.ndarray:
        """The weights of these features, zero for those that have none."""
        return np.array([self.values.get(name, 0.0) for name in names])


def _is_weight(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # so that NaN, too, is refused
