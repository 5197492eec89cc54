"""Orders of several clients share batches, and nothing else."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.terms import Glossary, Term
from fairseq_ext.serve.server.batcher import Batcher, Outcome
from fairseq_ext.serve.server.body import Order
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.metrics import Metrics
from fairseq_ext.serve.server.refusals import RefusedError
from tests.serve.server.fake_server import TIMEOUT
from tests.serve.server.fake_system import FakeSystem


class Held:
    """A batcher whose first batch, one text, is held until ``release``; all else waits meanwhile."""

    def __init__(self, **limits: Any) -> None:
        self.system = FakeSystem()
        self.metrics = Metrics()
        self.batcher = Batcher(self.system, Limits(**{"window": 0, **limits}), self.metrics)  # type: ignore[arg-type]
        self.first = self.submit("wait")
        assert self.system.waits.wait(TIMEOUT)

    def submit(self, *texts: str, route: str = "gates", **search: Any) -> Future[Outcome]:
        return self.batcher.submit(Order(tuple(Request(text, route) for text in texts), **search))

    def release(self) -> list[list[str]]:
        """All batches but the held one."""
        self.system.go.set()
        self.batcher.close()
        return self.system.batches[1:]


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.release()


def texts_of(future: Future[Outcome]) -> list[str]:
    return [answer.candidates[0].text for answer in future.result(TIMEOUT).answers]


def test_orders_of_any_route_share_a_batch(held: Held) -> None:
    futures = [held.submit("a b"), held.submit("c d", "e", route="law"), held.submit("f", route="base")]
    assert [sorted(batch) for batch in held.release()] == [["a b", "c d", "e", "f"]]
    assert [texts_of(future) for future in futures] == [["b a"], ["d c [law]", "e [law]"], ["f [base]"]]


def test_another_system_takes_over_and_none_is_lost(held: Held) -> None:
    old, new = held.submit("a b"), FakeSystem()
    held.batcher.system = new  # type: ignore[assignment]
    later = held.submit("c d")
    assert held.release() == [["a b"]]
    assert new.batches == [["c d"]]
    assert [texts_of(future) for future in (held.first, old, later)] == [["wait"], ["b a"], ["d c"]]


def test_orders_that_search_otherwise_come_after() -> None:
    held = Held()
    wide = held.submit("b", "c", beam=7)
    futures = [held.submit("a"), wide, held.submit("d", candidates=2), held.submit("e")]
    assert held.release() == [["b", "c"], ["a", "e"], ["d"]]
    assert [len(future.result(TIMEOUT).answers[0].candidates) for future in futures] == [1, 1, 2, 1]


def test_a_batch_has_so_many_tokens_of_texts_of_like_length() -> None:
    held = Held(max_tokens=8)  # of the fake system, a word has two
    long = ("f " * 10).strip()
    futures = [held.submit("a", "b", long, "c c"), held.submit("d"), held.submit(long), held.submit("e e", "g")]
    # The turn of the oldest; of what needs least; of the oldest; of what is left.
    assert [sorted(batch) for batch in held.release()] == [["a", "b", "d", "g"], ["c c", "e e"], [long], [long]]
    assert texts_of(futures[0]) == ["a", "b", long.strip(), "c c"]


def test_a_batch_has_fewer_texts_with_marks() -> None:
    held = Held(max_tokens=8)  # of the fake system, a tag has one
    held.submit("a <0>b</0> c", "d e f", "g h i")
    assert [len(batch) for batch in held.release()] == [1, 2]


def test_a_short_order_overtakes_long_ones_which_come_to_their_end() -> None:
    held = Held(max_tokens=40)
    word = "word " * 15
    long = [held.submit(*[f"{word}{number}"] * 8, beam=12) for number in range(4)]
    short = [held.submit(letter) for letter in "abcdef"]
    batches = held.release()
    assert batches.index(["a", "b", "c", "d", "e", "f"]) <= 2
    assert all(len(batch) == 1 for batch in batches if "word" in batch[0])  # 17 tokens × 12 of 40 × 5
    assert [len(texts_of(each)) for each in (*long, *short)] == [8] * 4 + [1] * 6


def test_long_texts_are_cut_and_their_answers_joined() -> None:
    held = Held(max_tokens=20)
    sentence = "law " * 9 + "end. "
    future = held.submit(sentence * 3 + "med, " * 30, "a b", gates="tokens")
    batches = held.release()
    assert all(sum(len(text.split()) + 1 for text in batch) <= 20 for batch in batches)
    text, short = future.result(TIMEOUT).answers
    assert short.candidates[0].text == "b a"
    turned = " ".join(["end." + " law" * 9] * 3 + ["med, " * 29 + "med,"])
    assert sorted(text.candidates[0].text.split()) == sorted(turned.split())
    assert text.candidates[0].text.startswith("end." + " law" * 9)
    assert text.weights[0] > text.weights[2]
    assert sum(text.weights) == pytest.approx(1)
    assert len(text.tokens.pieces) == len(text.tokens.weights) > 60


def test_a_full_queue_refuses_and_says_when_to_come_back() -> None:
    held = Held(queue=3)
    held.submit("a", "b")
    assert held.batcher.has_room
    with pytest.raises(RefusedError, match="2 of 3 texts") as caught:
        held.submit("c", "d")
    assert caught.value.status == 503
    assert caught.value.headers["Retry-After"]
    held.submit("e")
    assert not held.batcher.has_room
    assert held.release() == [["a", "b", "e"]]


@pytest.mark.parametrize(
    ("text", "terms", "beam", "is_taken"),
    [
        ("a b c", None, 2, True),  # four tokens, twice
        ("a b c d e", None, 2, False),
        ("a b c", {"b": "d e"}, 1, True),
        ("a b c", {"b": "d e f g h i j"}, 1, False),
        ("a b c", {"d": "d e f g h i j"}, 1, True),  # not in the text
        ("a <0>b</0> c", None, 2, False),
    ],
)
def test_an_order_has_so_much_work_with_its_terms_and_tags(
    text: str, terms: dict[str, str] | None, beam: int, is_taken: bool
) -> None:
    held = Held(max_work=10)
    glossary = None if terms is None else Glossary(Term(source, (target,)) for source, target in terms.items())
    order = Order((Request(text, "gates", terms=glossary),), beam=beam)
    if is_taken:
        held.batcher.submit(order)
    else:
        with pytest.raises(RefusedError, match="too much work") as caught:
            held.batcher.submit(order)
        assert caught.value.status == 413
    held.release()


def test_a_text_that_fails_fails_its_own_order_alone(held: Held) -> None:
    bad, broken = held.submit("b", "endless", "c"), held.submit("broken")
    good = [held.submit(text) for text in "adef"]
    held.release()
    assert [texts_of(future) for future in good] == [["a"], ["d"], ["e"], ["f"]]
    with pytest.raises(RefusedError, match=r"texts\[1\]: too long") as caught:
        bad.result(TIMEOUT)
    assert caught.value.status == 422
    with pytest.raises(RuntimeError, match="no memory"):
        broken.result(TIMEOUT)


def test_closing_finishes_what_was_taken_and_takes_no_more(held: Held) -> None:
    futures = [held.submit("a"), held.submit("b", beam=2)]
    held.release()
    assert [texts_of(each) for each in (held.first, *futures)] == [["wait"], ["a"], ["b"]]
    with pytest.raises(RefusedError, match="stopping") as caught:
        held.submit("c")
    assert caught.value.status == 503
    assert not held.batcher.is_alive


def test_texts_that_come_within_the_window_share_a_batch() -> None:
    system = FakeSystem()
    batcher = Batcher(system, Limits(window=1000 * TIMEOUT, max_tokens=6), Metrics())  # type: ignore[arg-type]
    futures = [batcher.submit(Order((Request(text, "gates"),))) for text in "abc"]
    for future in futures:  # before the window ends, since the batch is full
        future.result(TIMEOUT / 2)
    batcher.close()
    assert system.batches == [["a", "b", "c"]]
