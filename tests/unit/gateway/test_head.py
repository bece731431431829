"""Heads of requests: one meaning or a refusal, for both protocols, without sockets."""

from __future__ import annotations

import random

import pytest

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.http.head import HTTP_1_1, HTTP_2, check_head
from svc_cluster.http.http2_head import make_request
from svc_cluster.http.message import BytesBody, Request

PSEUDO = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/a?b"), (b":authority", b"h")]


def test_pseudo_headers_become_the_neutral_request() -> None:
    """The authority stands in for the host; the rest is as sent."""
    request = make_request([*PSEUDO, (b"x-a", b"\xe9"), (b"x-a", b"2")], BytesBody())
    assert (request.method, request.raw_path, request.query) == ("GET", "/a", "b")
    assert list(request.headers) == [("host", "h"), ("x-a", "\xe9"), ("x-a", "2")]


def test_a_host_that_repeats_the_authority_is_one_host() -> None:
    """As some proxies send both."""
    request = make_request([*PSEUDO, (b"host", b"h")], BytesBody())
    assert list(request.headers) == [("host", "h")]


@pytest.mark.parametrize(
    ("version", "headers", "fine"),
    [
        (HTTP_1_1, [("host", "x")], True),
        (HTTP_1_1, [], False),
        ((1, 0), [], True),
        (HTTP_1_1, [("host", "x"), ("transfer-encoding", "Chunked")], True),
        ((1, 0), [("host", "x"), ("transfer-encoding", "chunked")], False),
        (HTTP_2, [("host", "x"), ("transfer-encoding", "chunked")], False),
        (HTTP_1_1, [("host", "x"), ("transfer-encoding", "gzip")], False),
        (HTTP_1_1, [("host", "x"), ("content-length", "5")], True),
        (HTTP_1_1, [("host", "x"), ("content-length", "+5")], False),
        (HTTP_1_1, [("host", "x"), ("content-length", "9" * 19)], False),
        (HTTP_1_1, [("host", "x"), ("cookie", "a"), ("cookie", "b")], True),
        (HTTP_1_1, [("host", "x"), ("a", "b\x00")], False),
    ],
)
def test_rules_of_a_head(
    version: tuple[int, int], headers: list[tuple[str, str]], fine: bool
) -> None:
    """Whatever a parser let through."""
    request = Request("POST", "/a", "", headers)
    if fine:
        check_head(request, version)
    else:
        with pytest.raises(MalformedError) as refusal:
            check_head(request, version)
        assert refusal.value.code is ErrorCode.BAD_HEADER


@pytest.mark.parametrize("target", [b"/a#b", b"/a?b#c", b"/#", b"#"])
def test_a_fragment_is_refused(target: bytes) -> None:
    """It belongs to the client, and one that drops it reads another target than one that does
    not."""
    with pytest.raises(MalformedError, match=r"fragment|not a path"):
        make_request([*PSEUDO[:2], (b":path", target), PSEUDO[3]], BytesBody())


def test_any_headers_make_a_request_or_a_refusal() -> None:
    """20,000 lists of headers: nothing else comes out, and a request that is made is free of line
    ends and NUL."""
    rng = random.Random(9113)
    known = [name for name, _ in PSEUDO] + [b"host", b"te", b"content-length", b"a", b"cookie"]
    values = [value for _, value in PSEUDO] + [b"", b"5", b"trailers", b"/", b"a,b"]
    made = 0
    for _ in range(20_000):
        fields = [
            (
                rng.choice(known) if rng.random() < 0.8 else rng.randbytes(rng.randrange(5)),
                rng.choice(values) if rng.random() < 0.8 else rng.randbytes(rng.randrange(9)),
            )
            for _ in range(rng.randrange(5))
        ]
        if rng.random() < 0.8:
            fields = [*PSEUDO, *fields]
        try:
            request = make_request(fields, BytesBody())
        except MalformedError:
            continue
        made += 1
        text = "".join([request.method, request.raw_path, request.query])
        text += "".join(name + value for name, value in request.headers)
        assert not set(text) & set("\r\n\0")
    assert made > 1000
