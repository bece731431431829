"""Every kind of request that a gateway serves, at its limits: one or more for each operation of the
table of endpoints, in each form that it has."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from svc_cluster.codec.json_body import DataFormat
from svc_cluster.codec.session_frame import Compression, encode_frame
from svc_cluster.gateway.request.negotiation import EVENT_STREAM, PROTOBUF_TYPES, SESSION_TYPES
from tests.contract.session_client import Session
from tests.integration.gateway_turns import bodies
from tests.integration.gateway_turns.backend import BASIN, CIPHERS, KEY, SHAPES
from tests.integration.gateway_turns.watched import HEADERS, WatchedGateway

Play = Callable[[WatchedGateway], None]
Kinds = Iterator[tuple[str, Play]]

JSON: Final = {"content-type": "application/json"}
PROTO: Final = {"content-type": PROTOBUF_TYPES[0], "accept": PROTOBUF_TYPES[0]}
KEY_HEADER: Final = {"s2-encryption-key": base64.b64encode(KEY).decode()}
LONGEST: Final = 90 * 86400
SESSION_BATCHES: Final = 6

FORMATS: Final = {DataFormat.UTF8: "raw", DataFormat.BASE64: "base64"}
COMPRESSIONS: Final = {
    Compression.NONE: "identity",
    Compression.GZIP: "gzip",
    Compression.ZSTD: "zstd",
}


class Operation(Enum):
    """Of which requests are known here, by the name that each has in the table of endpoints."""

    LIST_BASINS = "list-basins"
    CREATE_BASIN = "create-basin"
    ENSURE_BASIN = "ensure-basin"
    GET_BASIN_CONFIG = "get-basin-config"
    RECONFIGURE_BASIN = "reconfigure-basin"
    DELETE_BASIN = "delete-basin"
    LIST_STREAMS = "list-streams"
    CREATE_STREAM = "create-stream"
    ENSURE_STREAM = "ensure-stream"
    GET_STREAM_CONFIG = "get-stream-config"
    RECONFIGURE_STREAM = "reconfigure-stream"
    DELETE_STREAM = "delete-stream"
    LIST_TOKENS = "list-access-tokens"
    ISSUE_TOKEN = "issue-access-token"
    ISSUE_TICKET = "issue-read-ticket"
    REVOKE_TOKEN = "revoke-access-token"
    LIST_LOCATIONS = "list-locations"
    GET_DEFAULT_LOCATION = "get-default-location"
    SET_DEFAULT_LOCATION = "set-default-location"
    GET_CLUSTER = "get-cluster"
    LIST_ACTIVITY = "list-activity"
    ACCOUNT_METRICS = "account-metrics"
    BASIN_METRICS = "basin-metrics"
    STREAM_METRICS = "stream-metrics"
    APPEND = "append"
    READ = "read"
    CHECK_TAIL = "check-tail"
    HEALTH = "health"
    LIVEZ = "livez"
    READYZ = "readyz"
    METRICS = "metrics"
    VERSION = "version"
    OPENAPI = "openapi"
    DOCS = "docs"
    CONSOLE = "console"
    CONSOLE_ASSET = "console-asset"
    PROTOCOL = "protocol"


def asks(
    statuses: set[int],
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Play:
    """One request over HTTP/1.1, answered with one of the statuses."""

    def play(gateway: WatchedGateway) -> None:
        status, said = gateway.ask(method, path, body, headers)
        assert status in statuses, (method, path, status, said[:300])

    return play


def controls(status: int, method: str, path: str, body: Any) -> Kinds:
    """The largest legal body, and odd ones as large."""
    largest, *odd = bodies.control(body)
    yield "largest", asks({status}, method, path, largest, JSON)
    for number, one in enumerate(odd):
        yield f"odd {number}", asks({200, 201, 400, 422}, method, path, one, JSON)


# -- appends


def appends() -> Kinds:
    path = "/v1/streams/log/records"
    for shape in SHAPES:
        for form, word in FORMATS.items():
            body = bodies.json_append(shape, form)
            statuses = {400} if (shape, word) == ("garbage", "raw") else {200}
            headers = {**JSON, "svc-format": word}
            yield f"{word} {shape}", asks(statuses, "POST", path, body, headers)
        yield f"proto {shape}", asks({200}, "POST", path, bodies.proto_append(shape), PROTO)
    for coding, encode in bodies.CODINGS.items():
        # some are out of all proportion to what they are sent as
        statuses = {200, 400}
        headers = {**JSON, "svc-format": "raw", "content-encoding": coding}
        for shape in ("escapes", "headers", "noise"):
            body = encode(bodies.json_append(shape, DataFormat.UTF8))
            yield f"{shape} {coding}", asks(statuses, "POST", path, body, headers)
        body = encode(bodies.proto_append("headers"))
        headers = {**PROTO, "content-encoding": coding}
        yield f"proto {coding}", asks(statuses, "POST", path, body, headers)
    for name, odd in bodies.ODD_JSON.items():
        headers = {**JSON, "svc-format": "raw"}
        yield name, asks({200, 400, 422}, "POST", path, odd, headers)
    for name, odd in bodies.ODD_PROTO.items():
        yield f"proto {name}", asks({200, 400, 422}, "POST", path, odd, PROTO)
    for name, bomb in bodies.BOMBS.items():
        headers = {**JSON, "content-encoding": name.partition(" ")[0]}
        yield f"bomb {name}", asks({400, 413}, "POST", path, bomb, headers)
    for short in CIPHERS:
        for shape in SHAPES:
            body = bodies.proto_append(shape)
            sealed = f"/v1/streams/{short}-{shape}/records"
            headers = {**PROTO, **KEY_HEADER}
            yield f"{short} {shape}", asks({200}, "POST", sealed, body, headers)


def append_sessions() -> Kinds:
    for kind in SESSION_TYPES:
        yield kind, append_session(kind, "headers", Compression.NONE)
    for shape in SHAPES:
        for compression, word in COMPRESSIONS.items():
            if compression is Compression.NONE or shape in ("headers", "noise"):
                yield f"{shape} {word}", append_session(SESSION_TYPES[0], shape, compression)
    for short in CIPHERS:
        name = f"{short}-bodies"
        yield name, append_session(SESSION_TYPES[0], "bodies", Compression.NONE, name)
    for name, odd in bodies.ODD_PROTO.items():
        yield name, broken_session(odd[: bodies.FRAME_MAX - 1])


def append_session(kind: str, shape: str, compression: Compression, stream: str = "log") -> Play:
    """Frames at their maximum, sent at once, of one session."""

    def play(gateway: WatchedGateway) -> None:
        frame = encode_frame(bodies.proto_append(shape), compression)
        with open_session(gateway, "POST", f"/v1/streams/{stream}/records", kind) as session:
            session.send(*[frame] * SESSION_BATCHES)
            session.half_close()
            answers = session.rest()
            assert [a.is_terminal for a in answers] == [False] * SESSION_BATCHES, answers

    return play


def broken_session(message: bytes) -> Play:
    def play(gateway: WatchedGateway) -> None:
        path = "/v1/streams/log/records"
        with open_session(gateway, "POST", path, SESSION_TYPES[0]) as session:
            session.send(encode_frame(message))
            session.half_close()
            assert len(session.rest()) == 1

    return play


def open_session(
    gateway: WatchedGateway, method: str, path: str, kind: str, more: dict[str, str] | None = None
) -> Session:
    headers = {
        "authorization": HEADERS["authorization"],
        "content-type": kind,
        **KEY_HEADER,
        **(more or {}),
    }
    return Session(f"http://127.0.0.1:{gateway.port}", method, BASIN, path, headers)


# -- reads


def streams() -> list[str]:
    return [*SHAPES, *(f"{short}-{shape}" for short in CIPHERS for shape in SHAPES)]


def reads() -> Kinds:
    for stream in streams():
        path = f"/v1/streams/{stream}/records?seq_num=0"
        is_plain = stream in ("escapes", "noise")
        for coding in bodies.CODINGS if is_plain else ("identity",):
            more = {**KEY_HEADER, "accept-encoding": coding}
            for word in FORMATS.values():
                headers = {**more, "svc-format": word}
                yield f"{word} {stream} {coding}", asks({200}, "GET", path, None, headers)
            headers = {**more, "accept": PROTOBUF_TYPES[0]}
            yield f"proto {stream} {coding}", asks({200}, "GET", path, None, headers)
        for word in FORMATS.values():
            headers = {**KEY_HEADER, "svc-format": word, "accept": EVENT_STREAM}
            bounded = f"{path}&bytes=9999999"
            yield f"events {word} {stream}", asks({200}, "GET", bounded, None, headers)
        for word in COMPRESSIONS.values() if is_plain else ("identity",):
            yield f"session {stream} {word}", read_session(f"{path}&bytes=9999999", word)


def read_session(path: str, coding: str) -> Play:
    def play(gateway: WatchedGateway) -> None:
        more = {"accept-encoding": coding}
        with open_session(gateway, "GET", path, SESSION_TYPES[0], more) as session:
            frames = session.rest()
            assert frames, path
            assert not any(frame.is_terminal for frame in frames), frames[-1].payload[:200]

    return play


# -- all


def metrics(path: str, sets: dict[str, tuple[str, ...]]) -> Kinds:
    """The longest time there may be, at each interval."""
    for name, intervals in sets.items():
        for interval in intervals:
            end = 1_700_000_000
            query = f"set={name}&interval={interval}&start={end - LONGEST}&end={end}"
            yield f"{name} {interval}", asks({200}, "GET", f"{path}?{query}")


EVERY_INTERVAL: Final = ("minute", "hour", "day")


def of_operation(operation: Operation) -> Kinds:
    """Every kind of request that asks for the operation."""
    stream, basin = "/v1/streams/log", f"/v1/basins/{BASIN}"
    match operation:
        case Operation.APPEND:
            yield from appends()
            yield from append_sessions()
        case Operation.READ:
            yield from reads()
        case Operation.LIST_BASINS:
            yield from pages("/v1/basins")
        case Operation.LIST_STREAMS:
            yield from pages("/v1/streams")
        case Operation.LIST_TOKENS:
            yield from pages("/v1/access-tokens")
        case Operation.CREATE_BASIN:
            body = {"basin": "b" * 48, "config": bodies.BASIN_CONFIG, "location": "local"}
            yield from controls(201, "POST", "/v1/basins", body)
        case Operation.ENSURE_BASIN:
            yield from controls(200, "PUT", basin, {"config": bodies.BASIN_CONFIG})
        case Operation.RECONFIGURE_BASIN:
            yield from controls(200, "PATCH", basin, bodies.BASIN_CONFIG)
        case Operation.CREATE_STREAM:
            body = {"stream": bodies.NUL_FREE * 512, "config": bodies.STREAM_CONFIG}
            yield from controls(201, "POST", "/v1/streams", body)
        case Operation.ENSURE_STREAM:
            yield from controls(200, "PUT", stream, {"config": bodies.STREAM_CONFIG})
        case Operation.RECONFIGURE_STREAM:
            yield from controls(200, "PATCH", stream, bodies.STREAM_CONFIG)
        case Operation.ISSUE_TOKEN:
            yield from controls(201, "POST", "/v1/access-tokens", bodies.TOKEN)
        case Operation.ISSUE_TICKET:
            yield from controls(201, "POST", "/v1/read-tickets", bodies.TICKET)
        case Operation.SET_DEFAULT_LOCATION:
            yield from controls(200, "PUT", "/v1/locations/default", "local")
        case Operation.ACCOUNT_METRICS:
            sets = {"active-basins": ("hour",), "account-ops": EVERY_INTERVAL}
            yield from metrics("/v1/metrics", sets)
        case Operation.BASIN_METRICS:
            names = ("append-ops", "read-ops", "read-throughput", "append-throughput", "basin-ops")
            sets = {"storage": ("hour",), **dict.fromkeys(names, EVERY_INTERVAL)}
            yield from metrics(f"/v1/metrics/{BASIN}", sets)
        case Operation.STREAM_METRICS:
            yield from metrics(f"/v1/metrics/{BASIN}/log", {"storage": ("minute",)})
        case _:
            method, path, status = SMALL[operation]
            yield "as it is", asks({status}, method, path)


SMALL: Final[dict[Operation, tuple[str, str, int]]] = {
    Operation.GET_BASIN_CONFIG: ("GET", f"/v1/basins/{BASIN}", 200),
    Operation.DELETE_BASIN: ("DELETE", f"/v1/basins/{BASIN}", 202),
    Operation.GET_STREAM_CONFIG: ("GET", "/v1/streams/log", 200),
    Operation.DELETE_STREAM: ("DELETE", "/v1/streams/no-such", 404),
    Operation.CHECK_TAIL: ("GET", "/v1/streams/log/records/tail", 200),
    Operation.REVOKE_TOKEN: ("DELETE", "/v1/access-tokens/one", 204),
    Operation.LIST_LOCATIONS: ("GET", "/v1/locations", 200),
    Operation.GET_DEFAULT_LOCATION: ("GET", "/v1/locations/default", 200),
    Operation.GET_CLUSTER: ("GET", "/v1/cluster", 200),
    Operation.LIST_ACTIVITY: ("GET", "/v1/activity", 200),
    Operation.HEALTH: ("GET", "/health", 200),
    Operation.LIVEZ: ("GET", "/livez", 200),
    Operation.READYZ: ("GET", "/readyz", 200),
    Operation.METRICS: ("GET", "/metrics", 200),
    Operation.VERSION: ("GET", "/version", 200),
    Operation.OPENAPI: ("GET", "/openapi.json", 200),
    Operation.DOCS: ("GET", "/docs", 200),
    Operation.CONSOLE: ("GET", "/console", 200),
    Operation.CONSOLE_ASSET: ("GET", "/console/main.js", 200),
    Operation.PROTOCOL: ("GET", "/proto/s2/v1/s2.proto", 200),
}
"""Requests that can be no larger than their heads, and answers whose size is ours alone."""


def pages(path: str) -> Kinds:
    for coding in bodies.CODINGS:
        yield coding, asks({200}, "GET", path, None, {"accept-encoding": coding})
