"""Targets of what clients send beside whole requests: bodies, frames, headers, dates, tokens."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from svc_cluster.base.errors import ErrorCode, InvalidError, MalformedError, UnauthenticatedError
from svc_cluster.codec.compression import CompressionError, DecompressedTooLargeError, decompress
from svc_cluster.codec.config_json import CreateBasinJson, CreateStreamJson
from svc_cluster.codec.declarations_json import DeclarationError, decode_declarations
from svc_cluster.codec.duration import seconds_of
from svc_cluster.codec.ensure_json import ensured_basin, ensured_stream
from svc_cluster.codec.json_body import decode_object
from svc_cluster.codec.location_json import decode_location_name
from svc_cluster.codec.reconfigure_json import decode_basin_patch, decode_stream_patch
from svc_cluster.codec.sse import parse_event_id
from svc_cluster.codec.token_json import decode_ticket_request, decode_token_request
from svc_cluster.gateway.access.read_ticket import parse_ticket
from svc_cluster.gateway.endpoints.table import ROUTER
from svc_cluster.gateway.request.compress import accepted_coding
from svc_cluster.gateway.request.error_answers import MethodNotAllowedError, RouteNotFoundError
from svc_cluster.gateway.request.host_names import basin_of_host
from svc_cluster.gateway.request.negotiation import Query, media_type, page_limit, page_range
from svc_cluster.gateway.request.router import route, split_path
from svc_cluster.model import names
from svc_cluster.model.access_secret import is_secret_text, secret_text
from svc_cluster.model.access_token import Expiry
from tests.fuzz.target import Check, Target, chance, expect
from tests.property.codec import inputs
from tests.property.codec.parsers import check_event_id, check_frames, check_json, check_proto

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_BODIES: Final[tuple[Callable[[bytes], Any], ...]] = (
    lambda body: decode_object(body, CreateBasinJson, strict=True),
    lambda body: decode_object(body, CreateStreamJson),
    lambda body: ensured_basin(body, strict=True),
    ensured_stream,
    lambda body: decode_basin_patch(body, strict=True),
    decode_stream_patch,
    decode_token_request,
    decode_ticket_request,
    decode_location_name,
    decode_declarations,
)
"""The first byte of an input says which of them reads the rest."""


def _drawn(check: Callable[[random.Random, bytes], str]) -> Callable[[], Check]:
    def made() -> Check:
        return lambda data: _ignore(check(chance(data), data))

    return made


def _ignore(_outcome: str) -> None:
    """Taken and refused are both right."""


def check_bodies() -> Check:
    """Refused as declared, or made of a body that another JSON reader reads too."""

    def check(data: bytes) -> None:
        body = data[1:]
        try:
            found = _BODIES[(data[0] if data else 0) % len(_BODIES)](body)
        except MalformedError as error:
            expect(error.code is ErrorCode.BAD_JSON, f"refused as {error.code}")
            return
        except (InvalidError, DeclarationError):
            return
        expect(found is not None, "nothing was made of it")
        if body.strip():
            json.loads(body)

    return check


def make_body(rng: random.Random) -> bytes:
    config = {
        "retention_policy": rng.choice([{"age": 60}, {"infinite": {}}, {"age": 2**64}]),
        "timestamping": {"mode": rng.choice(["arrival", "client-prefer", "x"]), "uncapped": True},
        "delete_on_empty": {"min_age_secs": rng.choice(inputs.U64_EDGES)},
        "storage_class": rng.choice(["standard", "express", ""]),
    }
    scope = {"basins": {"prefix": "a"}, "streams": {"exact": "b"}, "ops": ["append", "read"]}
    bodies: list[Any] = [
        {"basin": "basin-0001", "config": {"default_stream_config": config}},
        {"stream": "s", "config": config},
        {"config": {"default_stream_config": config, "create_stream_on_append": True}},
        config,
        {"default_stream_config": config, "create_stream_on_read": None},
        config,
        {"id": "token", "scope": scope, "expires_at": "2031-01-01T00:00:00Z"},
        {"basin": "basin-0001", "streams": {"prefix": "a"}, "expires_in_secs": 60},
        "aws:us-east-1",
        {"basins": [{"name": "basin-0001", "streams": [{"name": "s"}]}], "access_tokens": []},
    ]
    place = rng.randrange(len(bodies))
    return bytes((place,)) + json.dumps(bodies[place], ensure_ascii=rng.random() < 0.5).encode()


def check_headers() -> Check:
    """Targets, queries and header values: `target NEWLINE query NEWLINE value ...`."""

    def check(data: bytes) -> None:
        target, query, *values = [*data.decode("latin-1").split("\n"), ""]
        _path(target)
        _query(query)
        for value in values:
            _value(value)

    return check


def _path(target: str) -> None:
    for method in _METHODS:
        _routed(target, method)


def _routed(target: str, method: str) -> None:
    try:
        segments = split_path(target)
        match = route(ROUTER.find(segments), segments, method, None)
    except (RouteNotFoundError, MethodNotAllowedError):
        return
    except MalformedError as error:
        expect(error.code in (ErrorCode.BAD_PATH, ErrorCode.BAD_HEADER), f"refused as {error.code}")
        return
    expect(match.basin is None or names.is_basin_name(match.basin), "a basin by no name")
    if match.stream is not None:
        # with NUL only where a stream is asked for that was there before NUL was refused
        is_old = match.endpoint.takes_stored_names
        is_name = names.is_stored_stream_name if is_old else names.is_stream_name
        expect(is_name(match.stream), "a stream by no name")


def _query(text: str) -> None:
    try:
        query = Query(text)
        for name in ("prefix", "limit", "seq_num"):
            query.text(name)
            query.unsigned(name)
        query.boolean("clamp")
        expect(1 <= page_limit(query) <= 1000, "a page beyond its bound")
        page_range(query, strict=True)
    except MalformedError as error:
        expect(error.code is ErrorCode.BAD_QUERY, f"refused as {error.code}")
    except InvalidError:
        pass


def _value(value: str) -> None:
    media_type(value)
    basin = basin_of_host(value, ["b.example"])
    expect(basin is None or names.is_basin_name(basin), "a host's basin by no name")
    coding = accepted_coding([("accept-encoding", value)])
    expect(coding in (None, "gzip", "zstd"), "a coding that nobody knows")
    with contextlib.suppress(MalformedError):
        parse_event_id(value)


def make_headers(rng: random.Random) -> bytes:
    lines = [
        rng.choice(["/v1/streams/a%2Fb/records", "/v1/basins/basin-0001", "/v1/access-tokens/x"]),
        rng.choice(["prefix=a%2Fb&limit=10", "seq_num=0&count=5&clamp=true", "limit=&prefix=+"]),
        rng.choice(
            ["application/json; charset=utf-8", "gzip;q=1.0, zstd;q=0", "text/event-stream"]
        ),
        rng.choice(["basin-0001.b.example:80", "1,2,3", "*;q=0.1,identity;q=0"]),
    ]
    return "\n".join(lines).encode()


def check_dates() -> Check:
    """A moment is what the standard library makes of it where that reads it; a duration is whole
    seconds."""

    def check(data: bytes) -> None:
        text = data.decode("utf-8", "replace")
        with contextlib.suppress(ValueError):
            expect(0 <= seconds_of(text) < 10**40, "a duration that is none")
        try:
            moment = Expiry.parse(text)
        except ValueError:
            return
        expect(Expiry.restored(text, moment.stored_ns).unix_ns == moment.unix_ns, "another moment")
        whole = text.partition(".")[0].upper() if "." in text else text.upper()
        if text.endswith(("Z", "z")) and len(whole) >= 19:
            seen = datetime.fromisoformat(whole[:19]).replace(tzinfo=UTC)
            expect(int(seen.timestamp()) == moment.unix_ns // 10**9, "another second")

    return check


def make_date(rng: random.Random) -> bytes:
    year = rng.choice((1, 1969, 1970, 2000, 2031, 9999))
    text = (
        f"{year:04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:59:59"
    )
    zone = rng.choice(("Z", "z", "+00:00", "-23:59", "+14:00"))
    fraction = rng.choice(("", ".5", ".123456789", ".0"))
    return rng.choice((text + fraction + zone, "7days 2h 30m", "90s", "1 month 3us")).encode()


def check_tokens() -> Check:
    """Texts of secrets and tickets: what is no secret is seen at once, and nothing opens."""

    def check(data: bytes) -> None:
        text = data.decode("latin-1")
        if is_secret_text(text):
            expect(text.isascii() and text == text.strip(), "a secret of another alphabet")
        with contextlib.suppress(UnauthenticatedError):
            sealed = parse_ticket(text)
            expect(sealed is not None, "a ticket that is nothing")
        with contextlib.suppress(MalformedError, InvalidError):
            request = decode_token_request(data)
            expect(len(request.token_id.encode()) <= 96, "a longer name than there is")

    return check


def make_token(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return secret_text(rng.randbytes(32)).encode()
    return b"tkt_" + rng.randbytes(40).hex().encode()


def check_compression() -> Check:
    """Within its limit, whatever was cut out of it and put in."""

    def check(data: bytes) -> None:
        coding = "gzip" if data[:1] < b"\x80" else "zstd"
        with contextlib.suppress(CompressionError, DecompressedTooLargeError):
            expect(len(decompress(coding, data[1:], 20_000)) <= 20_000, "beyond the limit")

    return check


def make_compressed(rng: random.Random) -> bytes:
    frame = inputs.frames(rng)
    for head, magic in ((b"\0", b"\x1f\x8b"), (b"\xff", b"\x28\xb5\x2f\xfd")):
        place = frame.find(magic)
        if place >= 0:
            return head + frame[place:]
    return b"\0\x1f\x8b\x08" + frame


TARGETS: Final = (
    Target("frames", _drawn(check_frames), inputs.frames),
    Target("json-append", _drawn(check_json), inputs.json_append),
    Target("json-bodies", check_bodies, make_body),
    Target("protobuf", _drawn(check_proto), inputs.append_input),
    Target("event-id", _drawn(check_event_id), inputs.event_id),
    Target("headers", check_headers, make_headers),
    Target("dates", check_dates, make_date),
    Target("tokens", check_tokens, make_token),
    Target("compression", check_compression, make_compressed),
)
