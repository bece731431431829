"""A head is taken for plain only where the library's parser makes the same request of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from aiohttp.web_protocol import RequestHandler
from hypothesis import example, given
from hypothesis import strategies as st

from svc_cluster.http import http1_head as heads
from svc_cluster.http.head import check_head
from svc_cluster.http.http1_exchange import Exchange, Http1Wire
from svc_cluster.http.http1_plain_head import FIELDS_MAX, PLAIN_HEAD_BYTES_MAX, plain_head
from svc_cluster.http.message import NOWHERE, Request
from tests.contract.smuggling_vectors import vectors

_USUAL = (
    b"POST /v1/streams/a%2Fb/records?x=1&y HTTP/1.1",
    b"Host: localhost:8080",
    b"authorization: Bearer abc",
    b"Content-Type: application/json",
    b"Accept-Encoding:gzip, deflate",
    b"connection: Keep-Alive",
    b"content-length: 5",
)


class _Wire:
    """As much of a connection as an exchange asks while it makes a request."""

    client = NOWHERE

    def has_odd_line(self, message: Any) -> bool:
        return False


def by_library(data: bytes) -> tuple[Request, int | None, int] | None:
    """The request, its body's size, and what of `data` is behind the head; None: it is refused."""
    loop = asyncio.new_event_loop()
    try:
        protocol = cast(RequestHandler, asyncio.Protocol())
        parser = HttpRequestParser(
            protocol,
            loop,
            2**16,
            max_line_size=heads.LINE_BYTES_MAX,
            max_field_size=heads.LINE_BYTES_MAX,
            max_headers=100,
            auto_decompress=False,
        )
        end = data.find(b"\r\n\r\n") + 4
        try:
            messages, upgraded, _ = parser.feed_data(data[:end])
        except HttpProcessingError:
            return None
        if len(messages) != 1 or upgraded:
            return None
        ((message, payload),) = messages
        if message.should_close or data[:end].partition(b"\r\n")[0] != heads.line_of(message):
            return None
        wire = cast(Http1Wire, _Wire())
        request = Exchange(message, payload, wire, None, cast(asyncio.Task[None], None)).request()
        check_head(request, message.version)
        return request, heads.body_bytes(message, payload), len(data) - end
    finally:
        loop.close()


def check(data: bytes) -> bool:
    """Whether it is plain. Raises AssertionError where the library sees something else."""
    found = plain_head(data)
    if found is None:
        return False
    told = by_library(data)
    assert told is not None, "the library refuses what was taken"
    request, body_bytes, behind = told
    assert (found.method, found.path, found.query) == (
        request.method,
        request.raw_path,
        request.query,
    )
    assert list(found.headers) == request.headers
    assert found.by_name == {name: request.header(name) for name, _ in request.headers}
    assert (found.body_bytes, len(data) - len(found.raw)) == (body_bytes, behind)
    assert found.raw == data[: len(found.raw)]
    return True


_CHANGES = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.integers(0, 3),
        st.sampled_from([bytes([n]) for n in range(256)])
        | st.sampled_from(
            [
                b"\r\n",
                b"\r\n ",
                b"\r\n\r\n",
                b"content-length: 6\r\n",
                b"transfer-encoding: chunked\r\n",
                b"x" * 9000,
                b"HTTP/1.0",
                b"http://other/",
                b"close",
                b"\r\nexpect: 100-continue",
            ]
        ),
    ),
    max_size=3,
)


@given(fields=st.lists(st.sampled_from(_USUAL[1:]), max_size=7), changes=_CHANGES)
@example(fields=list(_USUAL[1:]), changes=[])
def test_what_is_plain_means_the_same_to_the_library(
    fields: list[bytes], changes: list[tuple[int, int, bytes]]
) -> None:
    data = b"\r\n".join([_USUAL[0], *fields]) + b"\r\n\r\nhello"
    for place, taken, put in changes:
        data = data[:place] + put + data[place + taken :]
    check(data)


@given(name=st.binary(max_size=12), value=st.binary(max_size=24), target=st.binary(max_size=24))
def test_any_field_and_any_target_means_the_same_to_the_library(
    name: bytes, value: bytes, target: bytes
) -> None:
    check(b"GET /%b HTTP/1.1\r\nhost: x\r\n%b:%b\r\n\r\n" % (target, name, value))


def test_the_vectors_mean_the_same_to_the_library() -> None:
    plain = sum(check(sent) for _, sent, _ in vectors())
    assert plain >= 10, "many of them begin with a plain request"


def test_what_clients_usually_send_is_plain() -> None:
    assert check(b"\r\n".join(_USUAL) + b"\r\n\r\nhello")
    assert check(b"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")
    assert check(b"DELETE /v1/x HTTP/1.1\r\nhost:\r\nx-empty:\r\n\r\n")


@pytest.mark.parametrize(
    "spoilt",
    [
        b"host: y\r\n",
        b"x-a: c\r\nX-A: c\r\n",
        b"connection: close\r\n",
        b"connection: upgrade\r\n",
        b"expect: 100-continue\r\n",
        b"transfer-encoding: chunked\r\n",
        b"content-length: +5\r\n",
        b"content-length: \r\n",
        b"x: \xe9\r\n",
        b" folded: yes\r\n",
        b"x : y\r\n",
        b"x: a\nb\r\n",
        b"x: a\0b\r\n",
        b"".join(b"x-%d: 1\r\n" % n for n in range(FIELDS_MAX)),
        b"x: " + b"y" * PLAIN_HEAD_BYTES_MAX + b"\r\n",
    ],
)
def test_what_is_of_another_shape_is_left_to_the_library(spoilt: bytes) -> None:
    assert plain_head(b"GET / HTTP/1.1\r\nhost: x\r\nx-a: b\r\n\r\n") is not None
    assert plain_head(b"GET / HTTP/1.1\r\nhost: x\r\n" + spoilt + b"\r\n") is None


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.0",
        b"HEAD / HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"CONNECT x:80 HTTP/1.1",
        b"get / HTTP/1.1",
        b"GET  / HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET /#a HTTP/1.1",
        b"GET /\x80 HTTP/1.1",
        b"GET http://x/ HTTP/1.1",
        b"\r\nGET / HTTP/1.1",
    ],
)
def test_another_first_line_is_left_to_the_library(line: bytes) -> None:
    assert plain_head(line + b"\r\nhost: x\r\n\r\n") is None
