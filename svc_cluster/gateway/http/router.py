"""From method and raw path to an operation and the names in the path.

Routing is by raw segments: a name is decoded exactly once, out of one segment, so that a stream
named `a/b` (`a%2Fb`) never looks like two segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.codec.token_json import TOKEN_ID_RULE
from svc_cluster.gateway.http.errors import MethodNotAllowedError, RouteNotFoundError
from svc_cluster.gateway.http.negotiation import (
    BASIN_NAME_RULE,
    STREAM_NAME_RULE,
    decode_percent,
)
from svc_cluster.model import names


class Operation(Enum):
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
    REVOKE_TOKEN = "revoke-access-token"
    LIST_LOCATIONS = "list-locations"
    GET_DEFAULT_LOCATION = "get-default-location"
    SET_DEFAULT_LOCATION = "set-default-location"
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


WRITES: Final = frozenset(
    {
        Operation.CREATE_BASIN,
        Operation.ENSURE_BASIN,
        Operation.RECONFIGURE_BASIN,
        Operation.DELETE_BASIN,
        Operation.CREATE_STREAM,
        Operation.ENSURE_STREAM,
        Operation.RECONFIGURE_STREAM,
        Operation.DELETE_STREAM,
        Operation.APPEND,
    }
)


OF_STORED: Final = frozenset(
    {
        Operation.READ,
        Operation.CHECK_TAIL,
        Operation.GET_STREAM_CONFIG,
        Operation.STREAM_METRICS,
        Operation.DELETE_STREAM,
    }
)
"""What can be done to a stream whose name has NUL, as it was made before that was refused."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A path and what its methods do. `template` is the metrics label."""

    template: str
    methods: dict[str, Operation]
    basin_slot: int | None = None
    """Segment that holds the basin's name, counted from 0 behind the leading slash."""
    stream_slot: int | None = None
    token_slot: int | None = None
    seed_path: bool = False
    """The path shape that only the seed dialect has."""
    allow: str = ""

    def __post_init__(self) -> None:
        served = set(self.methods) | {"OPTIONS"} | ({"HEAD"} if "GET" in self.methods else set())
        object.__setattr__(self, "allow", ", ".join(sorted(served)))


@dataclass(frozen=True, slots=True)
class Match:
    operation: Operation
    template: str
    seed_path: bool
    basin: str | None
    """From the path or, where that has none, from the host name; valid."""
    stream: str | None
    token_id: str | None = None


_BASINS = Resource("/v1/basins", {"GET": Operation.LIST_BASINS, "POST": Operation.CREATE_BASIN})
_BASIN = Resource(
    "/v1/basins/{basin}",
    {
        "GET": Operation.GET_BASIN_CONFIG,
        "DELETE": Operation.DELETE_BASIN,
        "PUT": Operation.ENSURE_BASIN,
        "PATCH": Operation.RECONFIGURE_BASIN,
    },
    basin_slot=2,
)
_STREAMS = Resource("/v1/streams", {"GET": Operation.LIST_STREAMS, "POST": Operation.CREATE_STREAM})
_STREAM = Resource(
    "/v1/streams/{stream}",
    {
        "GET": Operation.GET_STREAM_CONFIG,
        "DELETE": Operation.DELETE_STREAM,
        "PUT": Operation.ENSURE_STREAM,
        "PATCH": Operation.RECONFIGURE_STREAM,
    },
    stream_slot=2,
)
RECORDS_TEMPLATE: Final = "/v1/streams/{stream}/records"
_RECORDS = Resource(
    RECORDS_TEMPLATE,
    {"GET": Operation.READ, "POST": Operation.APPEND},
    stream_slot=2,
)
_TAIL = Resource("/v1/streams/{stream}/records/tail", {"GET": Operation.CHECK_TAIL}, stream_slot=2)
_SEED_APPEND = Resource(
    "/v1/basins/{basin}/streams/{stream}/append",
    {"POST": Operation.APPEND},
    basin_slot=2,
    stream_slot=4,
    seed_path=True,
)
_SEED_READ = Resource(
    "/v1/basins/{basin}/streams/{stream}/read",
    {"GET": Operation.READ},
    basin_slot=2,
    stream_slot=4,
    seed_path=True,
)
_TOKENS = Resource(
    "/v1/access-tokens", {"GET": Operation.LIST_TOKENS, "POST": Operation.ISSUE_TOKEN}
)
_TOKEN = Resource("/v1/access-tokens/{id}", {"DELETE": Operation.REVOKE_TOKEN}, token_slot=2)
_LOCATIONS = Resource("/v1/locations", {"GET": Operation.LIST_LOCATIONS})
_LOCATION = Resource(
    "/v1/locations/default",
    {"GET": Operation.GET_DEFAULT_LOCATION, "PUT": Operation.SET_DEFAULT_LOCATION},
)
_USAGE = Resource("/v1/metrics", {"GET": Operation.ACCOUNT_METRICS})
_USAGE_BASIN = Resource("/v1/metrics/{basin}", {"GET": Operation.BASIN_METRICS}, basin_slot=2)
_USAGE_STREAM = Resource(
    "/v1/metrics/{basin}/{stream}",
    {"GET": Operation.STREAM_METRICS},
    basin_slot=2,
    stream_slot=3,
)

_TOP_LEVEL: Final = {
    "health": Resource("/health", {"GET": Operation.HEALTH}),
    "ping": Resource("/ping", {"GET": Operation.HEALTH}),
    "livez": Resource("/livez", {"GET": Operation.LIVEZ}),
    "readyz": Resource("/readyz", {"GET": Operation.READYZ}),
    "metrics": Resource("/metrics", {"GET": Operation.METRICS}),
    "version": Resource("/version", {"GET": Operation.VERSION}),
    "openapi.json": Resource("/openapi.json", {"GET": Operation.OPENAPI}),
}

RESOURCES: Final = (
    _BASINS,
    _BASIN,
    _STREAMS,
    _STREAM,
    _RECORDS,
    _TAIL,
    _SEED_APPEND,
    _SEED_READ,
    _TOKENS,
    _TOKEN,
    _LOCATIONS,
    _LOCATION,
    _USAGE,
    _USAGE_BASIN,
    _USAGE_STREAM,
    *_TOP_LEVEL.values(),
)
"""All there are."""

UNKNOWN_TEMPLATE: Final = "unknown"


def find_resource(segments: list[str]) -> Resource | None:
    """The resource of a raw path, split at its slashes behind the first."""
    count = len(segments)
    if segments[0] != "v1":
        return _TOP_LEVEL.get(segments[0]) if count == 1 else None
    if count < 2:
        return None
    match segments[1]:
        case "streams":
            return _find_stream_resource(segments, count)
        case "basins":
            return _find_basin_resource(segments, count)
        case "access-tokens":
            return {2: _TOKENS, 3: _TOKEN}.get(count)
        case "locations":
            if count == 2:
                return _LOCATIONS
            return _LOCATION if count == 3 and segments[2] == "default" else None
        case "metrics":
            return {2: _USAGE, 3: _USAGE_BASIN, 4: _USAGE_STREAM}.get(count)
        case _:
            return None


def _find_stream_resource(segments: list[str], count: int) -> Resource | None:
    if count >= 4 and segments[3] == "records":
        if count == 4:
            return _RECORDS
        return _TAIL if count == 5 and segments[4] == "tail" else None
    return {2: _STREAMS, 3: _STREAM}.get(count)


def _find_basin_resource(segments: list[str], count: int) -> Resource | None:
    if count == 6 and segments[3] == "streams":
        return {"append": _SEED_APPEND, "read": _SEED_READ}.get(segments[5])
    return {2: _BASINS, 3: _BASIN}.get(count)


def is_name_of_stream(operation: Operation, name: str) -> bool:
    """Whether the operation takes a stream of this name."""
    if operation in OF_STORED:
        return names.is_stored_stream_name(name)
    return names.is_stream_name(name)


def split_path(raw_path: str) -> list[str]:
    return raw_path[1:].split("/") if raw_path.startswith("/") else [raw_path]


def route(
    resource: Resource | None, segments: list[str], method: str, host_basin: str | None = None
) -> Match:
    """Raises RouteNotFoundError, MethodNotAllowedError, MalformedError with bad_path for a name
    that cannot be decoded or breaks the rules, and with bad_header where the path names another
    basin than the host."""
    if resource is None:
        raise RouteNotFoundError("there is nothing at this path")
    operation = resource.methods.get("GET" if method == "HEAD" else method)
    if operation is None:
        raise MethodNotAllowedError(resource.allow)
    basin = stream = None
    if resource.basin_slot is not None:
        basin = decode_percent(segments[resource.basin_slot], ErrorCode.BAD_PATH)
        if not names.is_basin_name(basin):
            raise MalformedError(ErrorCode.BAD_PATH, BASIN_NAME_RULE)
        if host_basin is not None and host_basin != basin:
            raise MalformedError(ErrorCode.BAD_HEADER, "two different basins are named")
    else:
        basin = host_basin
    if resource.stream_slot is not None:
        stream = decode_percent(segments[resource.stream_slot], ErrorCode.BAD_PATH)
        if not is_name_of_stream(operation, stream):
            raise MalformedError(ErrorCode.BAD_PATH, STREAM_NAME_RULE)
    token_id = None
    if resource.token_slot is not None:
        token_id = decode_percent(segments[resource.token_slot], ErrorCode.BAD_PATH)
        if not names.is_stored_token_id(token_id):
            raise MalformedError(ErrorCode.BAD_PATH, TOKEN_ID_RULE)
    return Match(operation, resource.template, resource.seed_path, basin, stream, token_id)
