"""Traces: which request a piece of work belongs to, as W3C's trace context has it, and what is told
of the work. Only what is sampled has any of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

TRACE_ID_BYTES: Final = 16
SPAN_ID_BYTES: Final = 8
STATE_BYTES_MAX: Final = 512
STATE_MEMBERS_MAX: Final = 32
"""A `tracestate` beyond either is left out, which W3C allows."""
ATTRIBUTES_MAX: Final = 32
ATTRIBUTE_CHARS_MAX: Final = 512
"""What is told with one span; more attributes are left out, longer texts cut."""

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_STATE_MEMBER: Final = re.compile(
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span of a sampled trace, under which others are told."""

    trace_id: bytes
    span_id: bytes
    state: str = ""


Attribute = str | int | float


class SpanKind(Enum):
    SERVER = "server"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work that has ended. Times are monotonic seconds of this process."""

    name: str
    kind: SpanKind
    context: TraceContext
    parent_id: bytes
    """The id of the span above it, in the same trace; empty: there is none."""
    begun: float
    ended: float
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    has_failed: bool = False


class SpanSink(Protocol):
    """Takes spans away. It neither waits nor raises: what finds no room is counted and dropped."""

    def put(self, span: Span) -> None: ...


def bounded(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """The attributes that are there, at most ATTRIBUTES_MAX, texts cut to ATTRIBUTE_CHARS_MAX."""
    found = [(name, value) for name, value in attributes.items() if value is not None]
    return {
        name: value[:ATTRIBUTE_CHARS_MAX] if isinstance(value, str) else value
        for name, value in found[:ATTRIBUTES_MAX]
    }


def parse_traceparent(text: str) -> tuple[TraceContext, bool] | None:
    """The caller's span, and whether its trace is sampled. None for what is not understood, which
    is to be treated as if it were not there."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or len(text) > STATE_BYTES_MAX:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    context = TraceContext(bytes.fromhex(trace_id), bytes.fromhex(span_id))
    return context, bool(int(flags, 16) & 1)


def parse_tracestate(values: Sequence[str]) -> str:
    """The members of all these headers, in order; empty where one of them is none, a key comes
    twice, or there is too much."""
    if sum(len(value) + 1 for value in values) > STATE_BYTES_MAX + 1:
        return ""
    members = [part.strip(" \t") for value in values for part in value.split(",")]
    members = [member for member in members if member]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > STATE_MEMBERS_MAX or len(keys) < len(members):
        return ""
    if not all(_STATE_MEMBER.fullmatch(member) for member in members):
        return ""
    return ",".join(members)
