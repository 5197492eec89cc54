"""Dynamic batching of the requests of several clients, translated in one thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby

from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.serve.runtime.requests import Answer, Request, join_answers
from fairseq_ext.serve.runtime.sentences import cut
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.serve.server.body import Order
from fairseq_ext.serve.server.limits import USUAL_BEAM, Limits
from fairseq_ext.serve.server.metrics import Metrics
from fairseq_ext.serve.server.refusals import RefusedError

_RETRY = {"Retry-After": "5"}  # seconds
_SHORTEST_PART = 16  # tokens
_LESS_WORK = "send fewer or shorter texts, fewer terms or tags, or a smaller beam"


@dataclass(frozen=True)
class Outcome:
    """Answers to an order, one per text, with the seconds it waited and took in total."""

    answers: list[Answer]
    waited: float
    took: float


@dataclass(eq=False)
class _Job:
    """An order in progress. ``future`` is fulfilled when all parts are answered."""

    order: Order
    system: SystemTranslator
    parts: list[_Part] = field(default_factory=list)
    waiting: list[_Part] = field(default_factory=list)  # parts that are not in a batch yet
    joins: list[Callable[[list[str]], str]] = field(default_factory=list)  # for each text, joins its pieces
    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    future: Future[Outcome] = field(default_factory=Future)
    unanswered: int = 0  # parts

    @property
    def search(self) -> tuple[SystemTranslator, int | None, int]:
        """The settings that all texts of a batch must share."""
        return self.system, self.order.beam, self.order.candidates

    @property
    def missing(self) -> int:
        """Total cost of the waiting parts."""
        return sum(part.cost for part in self.waiting)

    @property
    def missing_texts(self) -> int:
        """Number of texts with waiting parts."""
        return len({part.text for part in self.waiting})

    def joined(self) -> list[Answer]:
        """Return one answer per text."""
        pieces: list[list[Answer]] = [[] for _ in self.joins]
        for (text, _), parts in groupby(self.parts, lambda part: (part.text, part.piece)):
            pieces[text].append(join_answers([part.answer for part in parts if part.answer]))
        return [join_answers(own, join) for own, join in zip(pieces, self.joins, strict=True)]


@dataclass(eq=False)
class _Part:
    """A unit of translation: a piece of a text, or a part of a piece that is too long for a batch."""

    job: _Job
    text: int  # index of the text in the order
    piece: int  # index of the piece between line breaks or tags
    request: Request
    tokens: int  # of the source
    cost: int  # these, and the work of terms and marks, times beam size
    answer: Answer | None = None


class Batcher:
    """Translates the orders of many clients in batches of texts of similar length.

    Orders with different routes share a batch if their search settings are the same. A text that cannot be translated
    fails only its own order. Batches start alternately from the order with the least remaining work and from the oldest
    one, so short orders overtake long ones, and long ones are not starved. Assigning ``system`` changes the system of
    later orders.
    """

    def __init__(self, system: SystemTranslator, limits: Limits, metrics: Metrics) -> None:
        self.system = system
        self._limits = limits
        self._metrics = metrics
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._closed = False
        self._oldest_is_next = False
        self._thread = threading.Thread(target=self._run, name="translations", daemon=True)
        metrics.queue.set_function(lambda: self.waiting)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of texts that are not, or not completely, in a batch yet."""
        with self._changed:
            return sum(job.missing_texts for job in self._jobs)

    @property
    def is_alive(self) -> bool:
        """Whether the translation thread is running."""
        return self._thread.is_alive()

    @property
    def has_room(self) -> bool:
        """Whether another text would be accepted."""
        return self.is_alive and not self._closed and self.waiting < self._limits.queue

    def submit(self, order: Order) -> Future[Outcome]:
        """Accept an order. Cancelling the future drops its waiting parts.

        Raises:
            RefusedError: 503 with ``Retry-After`` if too many texts wait, or the batcher is closed; 413 if the order is
                too much work.
        """
        job = self._job(order)
        with self._changed:
            if self._closed:
                raise RefusedError(503, "the service is stopping; send the request again", _RETRY)
            waiting = self.waiting
            if waiting + job.missing_texts > self._limits.queue:
                message = f"the queue is full ({waiting} of {self._limits.queue} texts); send the request again later"
                raise RefusedError(503, message, _RETRY)
            self._jobs.append(job)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._forget(job))
        return job.future

    def _job(self, order: Order) -> _Job:
        """Return an order with its parts. Texts that would make a batch slow are split into sentences."""
        job, beam = _Job(order, self.system), order.beam or USUAL_BEAM
        work = 0
        most = max(_SHORTEST_PART, self._limits.batch_cost // beam // 2)  # the search takes one step per token
        for number, request in enumerate(order.requests):
            pieces, join = request.divided()
            job.joins.append(join)
            for place, piece in enumerate(pieces):
                for text, tokens in cut(piece.text, most, job.system.count_pieces):
                    own = replace(piece, text=text)
                    cost = beam * (tokens + job.system.extra_work(own))
                    job.parts.append(_Part(job, number, place, own, tokens, cost))
                    work += cost
                    if work > self._limits.max_work:
                        raise RefusedError(413, f"the request is too much work; {_LESS_WORK}")
        job.waiting, job.unanswered = list(job.parts), len(job.parts)
        return job

    def close(self) -> None:
        """Finish all accepted orders, and accept no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, job: _Job) -> None:
        """Drop the waiting parts of a job whose future is done: fulfilled, failed, or cancelled by its client."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                if job.future.cancelled():
                    self._metrics.dropped.inc(job.missing_texts)

    def _run(self) -> None:
        while batch := self._next_batch():
            start = time.monotonic()
            self._translate(batch)
            self._metrics.batch_seconds.observe(time.monotonic() - start)
            self._metrics.batch_sentences.observe(len(batch))

    def _next_batch(self) -> list[_Part]:
        """Wait for texts, and return a batch; empty when closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return []
                self._wait_for_more()
                if self._jobs:  # clients may have disconnected meanwhile
                    return self._take()

    def _wait_for_more(self) -> None:
        while self._jobs and not self._closed and sum(job.missing for job in self._jobs) < self._limits.batch_cost:
            patience = self._jobs[0].arrived + self._limits.window / 1000 - time.monotonic()
            if patience <= 0 or not self._changed.wait(patience):
                return

    def _take(self) -> list[_Part]:
        """Return a batch: the next part of the order whose turn it is, and as many parts of similar length as fit.

        A batch takes as many steps as its longest text needs.
        """
        first = self._jobs[0] if self._oldest_is_next else min(self._jobs, key=lambda job: job.missing)
        self._oldest_is_next = not self._oldest_is_next
        tokens = first.waiting[0].tokens
        alike = [job for job in (first, *self._jobs) if job.search == first.search]
        parts = [part for job in dict.fromkeys(alike) for part in job.waiting]
        parts.sort(key=lambda part: abs(part.tokens - tokens))
        # The first part always fits.
        costs = accumulate(part.cost for part in parts)
        batch = [
            part
            for part, total in zip(parts, costs, strict=True)
            if part is parts[0] or total <= self._limits.batch_cost
        ]
        for part in batch:
            part.job.waiting.remove(part)
            part.job.started = part.job.started or time.monotonic()
        self._jobs = deque(job for job in self._jobs if job.waiting)
        return batch

    def _translate(self, batch: list[_Part]) -> None:
        """Translate a batch. If this fails, translate its texts one by one, so that only the faulty one fails."""
        system, beam, candidates = batch[0].job.search
        try:
            answers = system.translate(
                [part.request for part in batch],
                beam=beam,
                candidates=candidates,
                with_gates=any(part.job.order.gates for part in batch),
                label=lambda index: f"texts[{batch[index].text}]",
            )
        except Exception as error:
            if len(batch) > 1:
                for part in batch:
                    self._translate([part])
                return
            with contextlib.suppress(InvalidStateError):  # the waiting parts of the order are dropped
                refusal = RefusedError(422, line_of(error)) if isinstance(error, InputError) else error
                batch[0].job.future.set_exception(refusal)
            return
        for part, answer in zip(batch, answers, strict=True):
            self._deliver(part, answer)

    def _deliver(self, part: _Part, answer: Answer) -> None:
        job = part.job
        self._metrics.sentences.labels(part.request.route).inc()
        self._metrics.tokens.inc(part.tokens)
        part.answer = answer
        job.unanswered -= 1
        if not job.unanswered:
            now = time.monotonic()
            outcome = Outcome(job.joined(), (job.started or now) - job.arrived, now - job.arrived)
            with contextlib.suppress(InvalidStateError):  # the client has disconnected
                job.future.set_result(outcome)
