"""Routes: which adapter, or which mixture of adapters, translates a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.manifest import BASE, CLASSIFIER, GATES
from fairseq_ext.serve.runtime.model import Model


class Routes:
    """The routes of an exported system, and the domains to which they lead.

    Args:
        name: name of the system, for messages.
        domains: in the order of the weights.
        has_tags: whether the model reads domain tags; there is then no route without a domain.
        classifier: predicts the domains of texts; None if the system has none.

    Attributes:
        names: routes that a request may name.
        default: route of requests that name none: ``gates`` if available, else ``classifier``. A system that does not
            use domains has ``base``. None if every request has to name a route.
    """

    default: str | None

    def __init__(self, name: str, domains: Sequence[str], model: Model, has_tags: bool, classifier: Any) -> None:
        self._name, self._domains, self._has_tags, self.classifier = name, list(domains), has_tags, classifier
        takes_domains = model.num_adapters > 0 or has_tags
        choosing = [GATES] if model.has_gates else []
        if classifier is not None and takes_domains:
            choosing.append(CLASSIFIER)
        self.names = [*choosing, *([] if has_tags else [BASE]), *(self._domains if takes_domains else [])]
        self.default = next(iter(choosing), None if takes_domains else BASE)

    def choose(self, asked: str | None, label: str) -> str:
        """Return the route that a request names, or the default one."""
        route = asked or self.default
        if route is None:
            raise InputError(f"{label}: {self._name} needs a route; choose one of {', '.join(self.names)}")
        if route not in self.names:
            raise InputError(f"{label}: {self._name} has no route {route!r}; choose one of {', '.join(self.names)}")
        return route

    def domains(self, texts: Sequence[str], routes: Sequence[str]) -> list[str | None]:
        """Return the domain of each text, or None where the route has none."""
        domains: list[str | None] = [route if route in self._domains else None for route in routes]
        unknown = [index for index, route in enumerate(routes) if route == CLASSIFIER and texts[index]]
        if unknown:
            probs = self.classifier.predict([texts[index] for index in unknown])
            # One column more than domains is the class base, which has no adapter; a system with tags has no base.
            best = (probs[:, : len(self._domains)] if self._has_tags else probs).argmax(axis=1)
            for index, number in zip(unknown, best.tolist(), strict=True):
                domains[index] = self._domains[number] if number < len(self._domains) else None
        return domains
