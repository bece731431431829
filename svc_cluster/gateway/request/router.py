"""From method and raw path to an endpoint and the names in the path.

Routing is by raw segments: a name is decoded exactly once, out of one segment, so that a stream
named `a/b` (`a%2Fb`) never looks like two segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from svc_cluster.base.errors import ErrorCode, MalformedError
from svc_cluster.gateway.request.endpoint import Endpoint
from svc_cluster.gateway.request.error_answers import MethodNotAllowedError, RouteNotFoundError
from svc_cluster.gateway.request.negotiation import decode_percent
from svc_cluster.model import names

_NAME_SLOT_MAX: Final = 4
"""No name that can have a slash stands behind this segment."""
_BEHIND_NAME_MAX: Final = 2
"""No more segments follow such a name."""
UNKNOWN_TEMPLATE: Final = "unknown"
_SEED_PATHS: Final = "/v1/basins/{basin}/streams"
"""How the paths begin that only the seed dialect has."""


class Resource:
    """A path and what its methods do. `template` is the metrics label."""

    __slots__ = (
        "allow",
        "basin_slot",
        "is_free",
        "is_page",
        "is_probe",
        "methods",
        "seed_path",
        "stream_slot",
        "template",
        "token_slot",
    )

    def __init__(self, template: str, endpoints: Iterable[Endpoint]) -> None:
        self.template = template
        self.methods = {endpoint.method: endpoint for endpoint in endpoints}
        self.is_free = all(endpoint.need is None for endpoint in self.methods.values())
        self.is_page = all(endpoint.is_page for endpoint in self.methods.values())
        self.is_probe = self.is_free and not self.is_page
        """It is asked by those who look how the process does, and never refused."""
        self.seed_path = template.startswith(_SEED_PATHS)
        slots = {segment: slot for slot, segment in enumerate(split_path(template))}
        self.basin_slot = slots.get("{basin}")
        """Segment that holds the basin's name, counted from 0 behind the leading slash."""
        self.stream_slot = slots.get("{stream}")
        self.token_slot = slots.get("{id}")
        served = set(self.methods) | {"OPTIONS"} | ({"HEAD"} if "GET" in self.methods else set())
        self.allow = ", ".join(sorted(served))


@dataclass(frozen=True, slots=True)
class Match:
    endpoint: Endpoint
    basin: str | None
    """From the path or, where that has none, from the host name; valid."""
    stream: str | None
    token_id: str | None = None


@dataclass(slots=True)
class _Node:
    """The paths that begin alike. `any`: behind a segment that is a name."""

    children: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None
    resource: Resource | None = None


class Router:
    """The paths of a table of endpoints."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        by_path: dict[str, list[Endpoint]] = {}
        for endpoint in endpoints:
            for path in endpoint.paths:
                by_path.setdefault(path, []).append(endpoint)
        self.resources = tuple(Resource(path, found) for path, found in by_path.items())
        """All there are, in the order of the table."""
        self._root = _Node()
        for resource in self.resources:
            node = self._root
            for segment in split_path(resource.template):
                if segment.startswith("{"):
                    node.any = node.any or _Node()
                    node = node.any
                else:
                    node = node.children.setdefault(segment, _Node())
            node.resource = resource

    def find(self, segments: list[str]) -> Resource | None:
        """The resource of a raw path, split at its slashes behind the first. There is none behind a
        slash at its end: that no name follows it is told like that of any other path."""
        if not segments or not segments[-1]:
            return None
        node = self._root
        for segment in segments:
            following = node.children.get(segment, node.any)
            if following is None:
                return None
            node = following
        return node.resource

    def nothing_at(self, segments: list[str]) -> RouteNotFoundError:
        """What is told where there is no resource: also how to say what was perhaps meant."""
        told = "there is nothing at this path"
        if segments[-1] == "" and self.find(segments[:-1]) is not None:
            told += "; without the slash at its end there is"
        elif self._has_slash_in_name(segments):
            told += "; a slash within a name is sent as %2F"
        return RouteNotFoundError(told)

    def _has_slash_in_name(self, segments: list[str]) -> bool:
        """Whether there is a resource when some segments are taken for one name."""
        for begin in range(min(len(segments), _NAME_SLOT_MAX + 1)):
            for rest in range(_BEHIND_NAME_MAX + 1):
                end = len(segments) - rest
                if end - begin < 2:
                    continue
                joined = [*segments[:begin], "name", *segments[end:]]
                found = self.find(joined)
                if found is not None and begin in (found.stream_slot, found.token_slot):
                    return True
        return False


def split_path(raw_path: str) -> list[str]:
    return raw_path[1:].split("/") if raw_path.startswith("/") else [raw_path]


def route(
    resource: Resource | None, segments: list[str], method: str, host_basin: str | None = None
) -> Match:
    """Raises RouteNotFoundError, MethodNotAllowedError and MalformedError. The last is with
    bad_path for a name that cannot be decoded or breaks the rules, and with bad_header where the
    path names another basin than the host."""
    if resource is None:
        raise RouteNotFoundError("there is nothing at this path")
    endpoint = resource.methods.get("GET" if method == "HEAD" else method)
    if endpoint is None:
        raise MethodNotAllowedError(resource.allow)
    basin = stream = None
    if resource.basin_slot is not None:
        basin = _name(segments, resource.basin_slot)
        if not names.is_basin_name(basin):
            raise MalformedError(ErrorCode.BAD_PATH, names.not_a_basin_name(basin))
        if host_basin is not None and host_basin != basin:
            raise MalformedError(ErrorCode.BAD_HEADER, "two different basins are named")
    else:
        basin = host_basin
    if resource.stream_slot is not None:
        stream = _name(segments, resource.stream_slot)
        if not endpoint.is_name_of_stream(stream):
            raise MalformedError(ErrorCode.BAD_PATH, names.not_a_stream_name(stream))
    token_id = None
    if resource.token_slot is not None:
        token_id = _name(segments, resource.token_slot)
        if not names.is_stored_token_id(token_id):
            raise MalformedError(ErrorCode.BAD_PATH, names.not_a_token_id(token_id))
    return Match(endpoint, basin, stream, token_id)


def _name(segments: list[str], slot: int) -> str:
    """Raises MalformedError (bad_path)."""
    if not segments[slot]:
        raise MalformedError(
            ErrorCode.BAD_PATH, "the path has two slashes behind each other, where a name belongs"
        )
    return decode_percent(segments[slot], ErrorCode.BAD_PATH)
