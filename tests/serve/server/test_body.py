"""Orders are read strictly, and every mistake is one line."""

import json
from typing import Any

import pytest

from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.terms import Term
from fairseq_ext.serve.server.body import FORM, Order, Upload, read_content, read_order
from fairseq_ext.serve.server.limits import Limits
from fairseq_ext.serve.server.refusals import RefusedError
from tests.serve.server.fake_system import DOMAINS, FakeSystem

LIMITS = Limits(max_texts=3, max_characters=30, max_beam=8)


def read(data: bytes | dict[str, Any], **attributes: Any) -> Order:
    system: Any = FakeSystem()
    for name, value in attributes.items():
        setattr(system, name, value)
    content = read_content(data if isinstance(data, bytes) else json.dumps(data).encode(), LIMITS)
    return read_order(content, system, LIMITS)


def refusal(data: bytes | dict[str, Any], **attributes: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        read(data, **attributes)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 300
    return caught.value


def test_texts_take_the_route_that_is_nearest() -> None:
    order = read({"texts": ["a", {"text": "b", "domain": "law"}, {"text": "c", "route": "base"}], "domain": "med"})
    assert order == Order((Request("a", "med"), Request("b", "law"), Request("c", "base")))


def test_terms_have_one_translation_or_several() -> None:
    [request] = read({"texts": ["a"], "terms": {"c": ["d", "e"]}}).requests
    assert list(request.terms or ()) == [Term("c", ("d", "e"))]


NO_JSON = [
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"texts": ["a"], "texts": ["b"]}',
    b'{"texts": ["a"], "beam": ' + b"9" * 5000 + b"}",
    b'{"texts": ["a\\ud800"]}',
]
TOO_MUCH = [
    {"texts": ["a"] * 4},
    {"texts": ["a" * 20, "b" * 11]},
    {"texts": ["a"], "terms": {"a": "b", "c": "d"}},
    # More than can be right, whatever it is.
    {"texts": ["a"], "terms": {"a": [1] * 200}},
    {"texts": ["a"], **{str(number): 1 for number in range(200)}},
]


@pytest.mark.parametrize(("status", "data"), [*((400, each) for each in NO_JSON), *((413, each) for each in TOO_MUCH)])
def test_what_is_no_json_or_too_much_is_refused(status: int, data: bytes | dict[str, Any]) -> None:
    assert refusal(data).status == status


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[]", "the body: "),
        ({"texts": []}, "texts: "),
        ({"texts": ["a", {}]}, "texts: 1: text: "),
        ({"texts": ["a"], "placeholders": "d"}, "\"placeholders\" is 'd'; give one of any, none, c"),
        ({"texts": ["a"], "domain": "law", "route": "base"}, 'has a "domain" and a "route"'),
        ({"texts": ["a"], "beam": 9}, '"beam" is 9; give a number from 1 to 8'),
        ({"texts": ["a"], "beam": 0}, '"beam" is 0'),
        (b'{"texts": ["a"], "beam": NaN}', "beam: "),
        ({"texts": ["a"], "beam": True}, "beam: "),
        ({"texts": ["a"], "beam": 2, "candidates": 3}, '"candidates" is 3; give a number from 1 to 2'),
        ({"texts": ["a"], "terms": {"a": []}}, "terms, 'a'"),
        ({"texts": ["a"], "terms": {"a": ["b", 1]}}, "terms: 'a': is 1"),
        ({"texts": [1, 2]}, "texts: 0: "),
        ({"texts": ["a", {"text": "b", "domain": "laws"}]}, "texts[1]: unknown \"domain\" 'laws'; choose one"),
        ({"texts": ["a"], "domain": "gates"}, "'gates'; choose one of law"),  # a route is no domain
        ({"texts": ["a"], "route": "laws"}, "'laws'; choose one of gates, classifier, base, law"),
    ],
)
def test_values_that_cannot_be_are_refused(data: bytes | dict[str, Any], said: str) -> None:
    error = refusal(data)
    assert error.status == 422
    assert said in str(error)


def test_where_there_is_no_default_the_domain_has_to_be_given() -> None:
    plain: dict[str, Any] = {"routes": ["base", *DOMAINS], "default_route": None}
    assert 'texts[1]: GAD needs a "domain"' in str(refusal({"texts": [{"text": "a", "route": "law"}, "b"]}, **plain))
    assert read({"texts": ["a"], "domain": "law"}, **plain).requests == (Request("a", "law"),)


def test_a_form_is_an_object() -> None:
    assert read_content(b"q=a+%C5%BC%26&q=b&x=", LIMITS, FORM) == {"q": ["a \u017c&", "b"], "x": ""}
    assert read_content("q=Größe’🎉+of".encode(), LIMITS, FORM) == {"q": "Größe’🎉 of"}
    for data in (b"q=%FF", b"q=\xc5"):
        with pytest.raises(RefusedError) as caught:
            read_content(data, LIMITS, FORM)
        assert caught.value.status == 400


def multipart(*parts: bytes, end: bytes = b"--x--\r\n") -> bytes:
    return b"".join(b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts) + end


def test_a_multipart_form_is_an_object_with_files() -> None:
    kind = 'multipart/form-data; boundary="x"'
    data = multipart(
        'name="q"\r\n\r\nGröße\r\nof'.encode(),
        b'name="file"; filename="a b.txt"\r\nContent-Type: text/plain\r\n\r\n\xff\r\n--y\r\n',
        'name="file"; filename="ö"\r\n\r\n'.encode(),
    )
    files = [Upload("a b.txt", b"\xff\r\n--y\r\n"), Upload("ö", b"")]
    assert read_content(data, LIMITS, kind) == {"q": "Größe\r\nof", "file": files}
    for wrong in (
        (data, "multipart/form-data"),
        (data.removesuffix(b"--x--\r\n"), kind),
        (multipart(b'name="q"\r\n\r\n\xff'), kind),
        (multipart(b"q\r\n\r\n"), kind),
    ):
        with pytest.raises(RefusedError) as caught:
            read_content(wrong[0], LIMITS, wrong[1])
        assert caught.value.status == 400
