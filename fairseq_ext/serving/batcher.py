"""Batches of what several clients wait for, translated in one thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from fairseq_ext.inputs.errors import InputError, line_of
from fairseq_ext.runtime.requests import Answer, Request, join_answers
from fairseq_ext.runtime.sentences import cut
from fairseq_ext.serving.body import Order
from fairseq_ext.serving.limits import USUAL_BEAM, Limits
from fairseq_ext.serving.metrics import Metrics
from fairseq_ext.serving.refusals import RefusedError

if TYPE_CHECKING:
    from fairseq_ext.runtime.translator import SystemTranslator

_RETRY = {"Retry-After": "5"}  # seconds
_SHORTEST_PART = 16  # tokens


@dataclass(frozen=True)
class Outcome:
    """The answers to an order, text by text, with the seconds that it waited and that it took in all."""

    answers: list[Answer]
    waited: float
    took: float


@dataclass(eq=False)
class _Job:
    """An order under way; ``future`` is fulfilled when no answer is missing."""

    order: Order
    system: SystemTranslator
    parts: list[_Part] = field(default_factory=list)
    arrived: float = field(default_factory=time.monotonic)
    started: float | None = None
    future: Future[Outcome] = field(default_factory=Future)

    @property
    def search(self) -> tuple[SystemTranslator, int | None, int]:
        """What the texts of one batch have in common."""
        return self.system, self.order.beam, self.order.candidates

    @property
    def waiting(self) -> list[_Part]:
        return [part for part in self.parts if part.waits]

    @property
    def missing(self) -> int:
        """The cost of what waits."""
        return sum(part.cost for part in self.waiting)

    @property
    def missing_texts(self) -> int:
        """How many texts wait, or parts of them."""
        return len({part.text for part in self.waiting})

    def joined(self) -> list[Answer]:
        """The answers, text by text."""
        by_text = groupby(self.parts, lambda part: part.text)
        return [join_answers([part.answer for part in parts if part.answer]) for _, parts in by_text]


@dataclass(eq=False)
class _Part:
    """What is translated as one: a text of an order, or a part of one that is too long for a batch."""

    job: _Job
    text: int  # its number in the order
    request: Request
    cost: int  # source tokens, times the beam
    waits: bool = True  # whether it is in no batch yet
    answer: Answer | None = None


class Batcher:
    """Translates orders of many clients in batches, of texts of like length.

    Orders of any route share a batch if they search alike. A text that cannot be translated fails its own order alone.
    The order that needs least comes next, and every second time the oldest: so a short order overtakes long ones, and a
    long one comes to its end. Another system may take the place of ``system`` for the orders to come.
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
        """How many texts are not yet in a batch, or not as a whole."""
        with self._changed:
            return sum(job.missing_texts for job in self._jobs)

    @property
    def is_alive(self) -> bool:
        """Whether the thread that translates runs."""
        return self._thread.is_alive()

    @property
    def has_room(self) -> bool:
        """Whether a text would be taken."""
        return self.is_alive and not self._closed and self.waiting < self._limits.queue

    def submit(self, order: Order) -> Future[Outcome]:
        """Take an order; cancelling the future drops what of it still waits.

        Raises:
            RefusedError: 503 with ``Retry-After`` if too many texts wait, or this is closed.
        """
        job = self._job(order)
        with self._changed:
            if self._closed:
                raise RefusedError(503, "the service is stopping; send the request again", _RETRY)
            waiting = self.waiting
            if waiting + job.missing_texts > self._limits.queue:
                message = f"{waiting} texts wait and at most {self._limits.queue} may; send this again later"
                raise RefusedError(503, message, _RETRY)
            self._jobs.append(job)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._forget(job))
        return job.future

    def _job(self, order: Order) -> _Job:
        """An order with its parts: a text that would make a batch take long is cut into sentences."""
        job, beam = _Job(order, self.system), order.beam or USUAL_BEAM
        most = max(_SHORTEST_PART, self._limits.batch_cost // beam // 2)  # a search takes a step for each token
        job.parts = [
            _Part(job, number, replace(request, text=text), pieces * beam)
            for number, request in enumerate(order.requests)
            for text, pieces in cut(request.text, most, job.system.count_pieces)
        ]
        return job

    def close(self) -> None:
        """Finish all orders that were taken, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _forget(self, job: _Job) -> None:
        """Drop what waits of a job whose future is done: fulfilled, failed, or cancelled by its client."""
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
        """Wait for texts; none when closed."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._closed)
                if not self._jobs:
                    return []
                self._wait_for_more()
                if self._jobs:  # whose clients may have gone by now
                    return self._take()

    def _wait_for_more(self) -> None:
        while self._jobs and not self._closed and sum(job.missing for job in self._jobs) < self._limits.batch_cost:
            patience = self._jobs[0].arrived + self._limits.window / 1000 - time.monotonic()
            if patience <= 0 or not self._changed.wait(patience):
                return

    def _take(self) -> list[_Part]:
        """The next part of the order whose turn it is, and those nearest to it in length, as many as fit in.

        A search takes as many steps as its longest text needs.
        """
        first = self._jobs[0] if self._oldest_is_next else min(self._jobs, key=lambda job: job.missing)
        self._oldest_is_next = not self._oldest_is_next
        cost = first.waiting[0].cost
        alike = [job for job in (first, *self._jobs) if job.search == first.search]
        parts = [part for job in dict.fromkeys(alike) for part in job.waiting]
        parts.sort(key=lambda part: abs(part.cost - cost))
        # The first always fits.
        costs = accumulate(part.cost for part in parts)
        batch = [
            part
            for part, total in zip(parts, costs, strict=True)
            if part is parts[0] or total <= self._limits.batch_cost
        ]
        for part in batch:
            part.waits = False
            part.job.started = part.job.started or time.monotonic()
        self._jobs = deque(job for job in self._jobs if job.waiting)
        return batch

    def _translate(self, batch: list[_Part]) -> None:
        """Translate a batch; if that fails, its texts one by one, so that the one to blame fails alone."""
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
            with contextlib.suppress(InvalidStateError):  # what else of the order waits is dropped
                refusal = RefusedError(422, line_of(error)) if isinstance(error, InputError) else error
                batch[0].job.future.set_exception(refusal)
            return
        for part, answer in zip(batch, answers, strict=True):
            self._deliver(part, answer)

    def _deliver(self, part: _Part, answer: Answer) -> None:
        job = part.job
        self._metrics.sentences.labels(part.request.route).inc()
        self._metrics.tokens.inc(part.cost // (job.order.beam or USUAL_BEAM))
        part.answer = answer
        if all(each.answer for each in job.parts):
            now = time.monotonic()
            outcome = Outcome(job.joined(), (job.started or now) - job.arrived, now - job.arrived)
            with contextlib.suppress(InvalidStateError):  # its client has gone
                job.future.set_result(outcome)
