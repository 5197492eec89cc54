"""Translating with an exported system: text in, text out, each sentence by a route of its own."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.hub import DomainTranslator  # isort: skip  before what imports fairseq otherwise
import torch
from fairseq import utils
from fairseq.data import data_utils
from torch import Tensor

from fairseq_ext.cleaning.normalise import normalise_lines
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from fairseq_ext.patches.models import lower_precision
from fairseq_ext.teacher.classifier import Classifier, load_classifier
from fairseq_ext.translators.exported import BASE, CLASSIFIER, CLASSIFIER_FOLDER, GATES, Manifest, verify
from fairseq_ext.translators.requests import Answer, Candidate, Request, TokenGates
from fairseq_ext.translators.sentences import TooLongError, split_sentences

# Of the source, padding included.
_BATCH_TOKENS = 4000
_MOST_CANDIDATES = 100


@dataclass(frozen=True)
class _Sentence:
    """What is translated as one: a request, or a part of one."""

    request: int
    tokens: Tensor
    domain_id: int
    is_forced: bool


@dataclass(frozen=True)
class _Found:
    """What the search found for a sentence; its best translation's pieces, and ``gates`` of each side L×D."""

    candidates: tuple[Candidate, ...]
    pieces: list[str]
    gates: dict[str, Tensor] | None


class SystemTranslator:
    """Translates with an exported system; make it by :meth:`load`. Several threads may use one."""

    def __init__(self, manifest: Manifest, hub: DomainTranslator, classifier: Classifier | None):
        self.manifest = manifest
        self.hub = hub
        self.classifier = classifier
        model = hub.models[0]
        self._has_gates = hasattr(model, "gate_weights")
        self._has_adapters = hasattr(model, "banks")
        self._has_tags = bool(hub.task.cfg.domain_tags)

    @classmethod
    def load(
        cls, directory: str | Path, *, device: str = "cpu", decoding_precision: str = "float32"
    ) -> SystemTranslator:
        """Load an exported system, after reading all its files again.

        Args:
            directory: of the export.
            device: torch's.
            decoding_precision: of weights and products: float32, bfloat16, or on a CPU int8.

        Raises:
            InputError: naming the file that is missing, damaged or unfit, or the option.
        """
        directory = Path(directory)
        manifest = verify(directory)
        hub = DomainTranslator.from_pretrained(directory).eval().to(device)
        for model in hub.models:
            lower_precision(model, decoding_precision)
        classifier = None
        if manifest.classifier is not None:
            classifier = load_classifier(directory / CLASSIFIER_FOLDER, manifest.classifier)
        return cls(manifest, hub, classifier)

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.manifest.languages

    @property
    def domains(self) -> list[str]:
        """In the order of weights."""
        return list(self.manifest.domains)

    @property
    def routes(self) -> list[str]:
        """All that a request may ask for."""
        takes_domains = self._has_adapters or self._has_tags
        return [
            *([GATES] if self._has_gates else []),
            *([CLASSIFIER] if self.classifier is not None and takes_domains else []),
            *([] if self._has_tags else [BASE]),
            *(self.domains if takes_domains else []),
        ]

    @property
    def default_route(self) -> str | None:
        """Gates, else the classifier, else the base of a system without adapters; None if one has to be given."""
        for route in (GATES, CLASSIFIER):
            if route in self.routes:
                return route
        return None if self._has_adapters or self._has_tags else BASE

    def translate(
        self,
        requests: Sequence[Request],
        *,
        beam: int | None = None,
        candidates: int = 1,
        with_gates: bool = True,
        label: Callable[[int], str] = lambda index: f"request {index + 1}",
    ) -> list[Answer]:
        """Translate requests, all in one go whatever their routes.

        Args:
            requests: in any order.
            beam: width of the search (default: that of the export).
            candidates: how many translations of each are wanted, the beam's width at most.
            with_gates: fill ``gates`` and ``weights`` of the answers, by one more pass over each translation.
            label: what messages call a request of this index.

        Raises:
            InputError: naming the request whose route is unknown, or whose text holds a reserved symbol or cannot be
                cut into sentences that are short enough.
        """
        beam = int(self.manifest.generation.get("beam", 5)) if beam is None else beam
        if not 1 <= candidates <= beam <= _MOST_CANDIDATES:
            raise InputError(
                f"candidates {candidates}, beam {beam}: give 1 to {_MOST_CANDIDATES}, and no more candidates than beam"
            )
        texts = self.normalise([request.text for request in requests])
        routes = [self._route(request, label(index)) for index, request in enumerate(requests)]
        domains = self._domains(texts, routes)
        sentences = [
            _Sentence(index, tokens, *self._forced(route, domain))
            for index, (text, route, domain) in enumerate(zip(texts, routes, domains, strict=True))
            for tokens in self._cut(text, domain, label(index))
        ]
        parts: list[list[_Found]] = [[] for _ in requests]
        for sentence, found in self._search(sentences, beam, candidates, with_gates and self._has_gates):
            parts[sentence.request].append(found)
        return [self._answer(*found, with_gates=with_gates) for found in zip(parts, routes, domains, strict=True)]

    def check(self, request: Request, label: str = "request") -> None:
        """Check that a request can be translated.

        Raises:
            InputError: as :meth:`translate`, with ``label`` for a name.
        """
        route = self._route(request, label)
        [text] = self.normalise([request.text])
        domain = route if route in self.domains else self.domains[0] if self._has_tags else None
        self._cut(text, domain, label)

    def count_pieces(self, text: str) -> int:
        """How long a text is: as many pieces, about, and the end of the sentence."""
        return len(self.hub.apply_bpe(text).split()) + 1

    def normalise(self, texts: Sequence[str]) -> list[str]:
        """Texts as those that the system was trained on, before they were cut into pieces."""
        lines = [canonical(text, Counter()) for text in texts]
        options = self.manifest.text
        return lines if options is None else normalise_lines(lines, self.languages[0], options)

    def _route(self, request: Request, label: str) -> str:
        route = request.route or self.default_route
        if route is None:
            raise InputError(f"{label}: {self.name} has to be told how to route; give one of {', '.join(self.routes)}")
        if route not in self.routes:
            raise InputError(f"{label}: {self.name} has no route {route!r}; there are {', '.join(self.routes)}")
        return route

    def _domains(self, texts: Sequence[str], routes: Sequence[str]) -> list[str | None]:
        """The domain by which each text is translated, None without."""
        found: list[str | None] = [route if route in self.manifest.domains else None for route in routes]
        asked = [index for index, route in enumerate(routes) if route == CLASSIFIER and texts[index]]
        if asked:
            assert self.classifier is not None
            best = self.classifier.predict([texts[index] for index in asked]).argmax(axis=1)
            for index, number in zip(asked, best.tolist(), strict=True):
                found[index] = self.domains[number]
        return found

    def _forced(self, route: str, domain: str | None) -> tuple[int, bool]:
        number = NO_ADAPTER if domain is None else self.manifest.domains.index(domain)
        return number, route != GATES

    def _cut(self, text: str, domain: str | None, label: str) -> list[Tensor]:
        """The tokens of a text, of its sentences if it is too long as a whole; of an empty one, none."""
        if not text:
            return []
        longest = self.hub.max_positions[0]
        tokens = self._encode(text, domain, label)
        if len(tokens) <= longest:
            return [tokens]
        sentences = [self._encode(sentence, domain, label) for sentence in split_sentences(text)]
        worst = max(map(len, sentences))
        if worst > longest:
            raise TooLongError(
                f"{label}: has a sentence of {worst} pieces, and {self.name} takes {longest}; break it up, by full "
                "stops or over several lines"
            )
        return sentences

    def _encode(self, text: str, domain: str | None, label: str) -> Tensor:
        task = self.hub.task
        try:
            tokens = task.encode_text(text, self.hub.subwords)
        except InputError as error:
            raise InputError(f"{label}: {error}") from None
        return task.typed_domains.tag(tokens, domain) if self._has_tags else tokens

    def _search(
        self, sentences: Sequence[_Sentence], beam: int, candidates: int, with_gates: bool
    ) -> Iterator[tuple[_Sentence, _Found]]:
        """The sentences in their order, each with what was found for it."""
        options = copy.deepcopy(self.hub.cfg.generation)
        for name, value in {**self.manifest.generation, "beam": beam}.items():
            setattr(options, name, value)
        generator = self.hub.task.build_generator(self.hub.models, options)
        found: dict[int, _Found] = {}
        for rows in _batches([len(sentence.tokens) for sentence in sentences]):
            batch = self._batch([sentences[row] for row in rows])
            hypotheses = self.hub.task.inference_step(generator, self.hub.models, batch, with_gates=with_gates)
            for row, own in zip(rows, hypotheses, strict=True):
                found[row] = self._found(own[:candidates])
        for row, sentence in enumerate(sentences):
            yield sentence, found[row]

    def _batch(self, sentences: Sequence[_Sentence]) -> dict[str, Any]:
        """fairseq's, of sentences each with its own domain."""
        dictionary = self.hub.src_dict
        tokens = [sentence.tokens for sentence in sentences]
        net_input = {
            "src_tokens": data_utils.collate_tokens(tokens, dictionary.pad(), dictionary.eos(), left_pad=True),
            "src_lengths": torch.tensor([len(own) for own in tokens]),
        }
        domain_ids = torch.tensor([sentence.domain_id for sentence in sentences])
        if self._has_adapters:
            is_forced = torch.tensor([sentence.is_forced for sentence in sentences])
            net_input |= {"domain_ids": domain_ids, "is_forced": is_forced}
        batch = {"id": torch.arange(len(sentences)), "domain_ids": domain_ids, "net_input": net_input}
        moved: dict[str, Any] = utils.apply_to_sample(lambda tensor: tensor.to(self.hub.device), batch)
        return moved

    def _found(self, hypotheses: Sequence[dict[str, Any]]) -> _Found:
        # fairseq prints logarithms to base 2.
        candidates = tuple(
            Candidate(self.hub.decode(own["tokens"]), float(own["score"]) / math.log(2)) for own in hypotheses
        )
        pieces = [self.hub.tgt_dict[token] for token in hypotheses[0]["tokens"]]
        return _Found(candidates, pieces, hypotheses[0].get("gates"))

    def _answer(self, parts: Sequence[_Found], route: str, domain: str | None, *, with_gates: bool) -> Answer:
        if not parts:
            return Answer((Candidate("", 0.0),), route, domain)
        candidates = _join(parts)
        if not with_gates:
            return Answer(candidates, route, domain)
        if route != GATES:
            return Answer(candidates, route, domain, weights=self._weights(None, domain))
        gates = _mean_gates(parts)
        return Answer(candidates, route, domain, gates, self._weights(gates, domain), _token_gates(parts))

    def _weights(self, gates: dict[str, list[list[float]]] | None, domain: str | None) -> list[float] | None:
        if not self._has_adapters:
            return None
        if gates is None:
            return [float(name == domain) for name in self.domains]
        layers = [layer for rows in gates.values() for layer in rows]
        return [sum(column) / len(layers) for column in zip(*layers, strict=True)]


def _join(parts: Sequence[_Found]) -> tuple[Candidate, ...]:
    """The candidates of a text of its parts': the best of all, the second of all, and so on."""
    if len(parts) == 1:
        return parts[0].candidates
    total = sum(len(part.pieces) for part in parts)
    ranks = zip(*(part.candidates for part in parts), strict=False)
    return tuple(
        Candidate(
            " ".join(candidate.text for candidate in rank),
            sum(candidate.score * len(part.pieces) for candidate, part in zip(rank, parts, strict=True)) / total,
        )
        for rank in ranks
    )


def _mean_gates(parts: Sequence[_Found]) -> dict[str, list[list[float]]]:
    sides = [part.gates for part in parts if part.gates is not None]
    return {name: torch.stack([side[name] for side in sides]).mean(0).tolist() for name in ("encoder", "decoder")}


def _token_gates(parts: Sequence[_Found]) -> TokenGates:
    weights = [row for part in parts if part.gates is not None for row in part.gates["tokens"].tolist()]
    return TokenGates([piece for part in parts for piece in part.pieces], weights)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Rows of like lengths, the longest first, so many that a batch has some thousand tokens."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if rows and lengths[rows[0]] * (len(rows) + 1) > _BATCH_TOKENS:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows
