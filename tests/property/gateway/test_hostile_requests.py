"""Paths, queries and headers that nobody would send are understood or refused, never a fault."""

from __future__ import annotations

import contextlib
import gzip
import json
import random

import zstandard

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError
from svc_cluster.codec.compression import (
    CompressionError,
    DecompressedTooLargeError,
    decompress,
)
from svc_cluster.gateway.endpoints.table import ENDPOINTS, ROUTER
from svc_cluster.gateway.request.body_head import content_codings
from svc_cluster.gateway.request.compress import accepted_coding
from svc_cluster.gateway.request.dialect import Dialect, detect
from svc_cluster.gateway.request.error_answers import MethodNotAllowedError, RouteNotFoundError
from svc_cluster.gateway.request.host_names import basin_of_host
from svc_cluster.gateway.request.negotiation import (
    Query,
    basin_of,
    check_request_token,
    data_format,
    media_type,
    page_limit,
    page_range,
)
from svc_cluster.gateway.request.router import route, split_path
from svc_cluster.http.message import BytesBody, Request, Response
from svc_cluster.model import names
from tests.property.gateway.hostile import damaged, hostile, in_batches
from tests.simulation.loop import run
from tests.unit.gateway.scripted import ScriptedBackend, make_app, nothing

PATHS = [
    b"/v1/basins/basin-01/streams/a%2Fb/append",
    b"/v1/streams/%E6%97%A5/records/tail",
    b"/v1/streams/s/records",
    b"/v1/basins/basin-01",
    b"/v1/metrics/basin-01/s",
    b"/openapi.json",
]
QUERIES = [
    b"prefix=a%2Fb&start_after=a%2Fc&limit=10",
    b"seq_num=0&count=5&bytes=7&clamp=true&until=3&wait=0",
    b"limit=&prefix=+",
]
HEADER_NAMES = [
    *("svc-basin", "s2-basin", "svc-format", "s2-format", "svc-request-token", "s2-request-token"),
    *("accept", "content-type", "accept-encoding", "content-encoding", "user-agent", "host"),
    *("content-length", "origin", "last-event-id", "access-control-request-method"),
]
HEADER_VALUES = [
    *(b"basin-01", b"base64", b"raw", b"application/json; charset=utf-8", b"svcs/proto, s2s/proto"),
    *(b"gzip;q=1.0, zstd;q=0", b"s2-sdk-go/1", b"basin-01.b.example:80", b"17", b"1,2,3", b"GET"),
]


def text(rng: random.Random, valid: list[bytes]) -> str:
    """Header values and targets are bytes, held one a character."""
    return damaged(rng, rng.choice(valid)).decode("latin-1")


def some_headers(rng: random.Random) -> list[tuple[str, str]]:
    return [(rng.choice(HEADER_NAMES), text(rng, HEADER_VALUES)) for _ in range(rng.randint(0, 5))]


@hostile
def test_any_path_has_a_route_or_a_refusal(rng: random.Random) -> None:
    """What is routed has valid names."""
    segments = split_path(text(rng, PATHS))
    method = rng.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "ODD"])
    host_basin = rng.choice([None, "basin-01"])
    try:
        match = route(ROUTER.find(segments), segments, method, host_basin)
    except (RouteNotFoundError, MethodNotAllowedError):
        return
    except MalformedError as error:
        refused = error.code
    else:
        assert match.endpoint in ENDPOINTS
        assert match.basin is None or names.is_basin_name(match.basin)
        is_old = match.endpoint.takes_stored_names
        is_name = names.is_stored_stream_name if is_old else names.is_stream_name
        assert match.stream is None or is_name(match.stream)
        return
    assert refused in (ErrorCode.BAD_PATH, ErrorCode.BAD_HEADER)


@hostile
def test_any_query_is_understood_or_bad_query(rng: random.Random) -> None:
    """Each getter in turn."""
    code = ErrorCode.BAD_QUERY
    try:
        query = Query(text(rng, QUERIES))
        for name in ("prefix", "limit", "seq_num"):
            value = query.text(name)
            assert value is None or value.encode() is not None
            query.unsigned(name)
        query.boolean("clamp")
        assert 1 <= page_limit(query) <= 1000
        page_range(query, strict=rng.random() < 0.5)
    except MalformedError as error:
        code = error.code
    except InvalidError:
        pass
    assert code is ErrorCode.BAD_QUERY


@hostile
def test_any_headers_are_understood_or_bad_header(rng: random.Random) -> None:
    """Selectors, formats, tokens, media types, codings, host names."""
    request = Request("GET", "/", "", some_headers(rng))
    assert detect(request.headers, seed_path=False) in Dialect
    for name, value in request.headers:
        media_type(value)
        basin = basin_of_host(value, rng.choice([None, ["b.example"], []]))
        assert basin is None or names.is_basin_name(basin), name
    assert accepted_coding(request.headers) in (None, "gzip", "zstd")
    content_codings(request)
    code = ErrorCode.BAD_HEADER
    try:
        data_format(request, rng.choice(list(Dialect)))
        check_request_token(request, creates=rng.random() < 0.5)
        assert names.is_basin_name(basin_of(request, rng.choice([None, "basin-01"])))
    except MalformedError as error:
        code = error.code
    assert code is ErrorCode.BAD_HEADER


@hostile
def test_any_compressed_body_is_undone_or_refused(rng: random.Random) -> None:
    """Within its limit, whatever was cut out of it and put in."""
    data = rng.randbytes(rng.randint(0, 50)) * rng.randint(1, 60)
    coding = rng.choice(["gzip", "zstd"])
    if coding == "gzip":
        half = len(data) // 2
        encoded = gzip.compress(data[:half]) + gzip.compress(data[half:])
    else:
        encoded = zstandard.ZstdCompressor(write_content_size=rng.random() < 0.5).compress(data)
    with contextlib.suppress(CompressionError, DecompressedTooLargeError):
        assert len(decompress(coding, damaged(rng, encoded), 2_000)) <= 2_000


@in_batches(1000)
def test_any_request_has_an_answer(sources: list[random.Random]) -> None:
    """The whole application: JSON with a code for every refusal, and nothing it did not mean."""

    async def main() -> None:
        app, metrics = make_app(ScriptedBackend([nothing(3)], failure=InvalidError("told so")))
        for rng in sources:
            request = Request(
                rng.choice(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
                text(rng, PATHS),
                text(rng, QUERIES),
                some_headers(rng),
                BytesBody(damaged(rng, b'{"records":[{"body":"YQ=="}],"stream":"s"}')),
            )
            await check(await app.handle(request))
        assert "svc_http_body_bytes_in_flight 0.0" in metrics.expose().decode()

    run(lambda loop: main())


async def check(response: Response) -> None:
    if not isinstance(response.body, bytes):
        close = getattr(response.body, "aclose", None)
        assert close is not None
        await close()
    elif response.status >= 400:
        headers = dict(response.headers)
        assert headers["content-type"] == "application/json"
        coding = headers.get("content-encoding", "identity")
        body = json.loads(decompress(coding, response.body, 100_000))
        assert set(body) >= {"error", "code", "message"}
        assert response.status < 500 or body["code"] == "not_implemented"
