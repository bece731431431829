"""Streams are named by commands as `basin/stream` and as `s2://basin/stream`."""

from __future__ import annotations

from typing import Final, NamedTuple

from svc_cluster.cli.data.verb import UsageFault
from svc_cluster.model import names

_SCHEME: Final = "s2://"


class StreamName(NamedTuple):
    """A stream and the basin that it is in."""

    basin: str
    stream: str

    def __str__(self) -> str:
        return f"{self.basin}/{self.stream}"


def stream_name(text: str) -> StreamName:
    """Return what is named; all behind the first slash is the stream's name. Raises UsageFault."""
    basin, slash, stream = text.removeprefix(_SCHEME).partition("/")
    if not slash or not stream:
        raise UsageFault(f"{text!r} names no stream: use basin/stream or s2://basin/stream")
    if not names.is_stream_name(stream):
        raise UsageFault(f"{stream!r} is no name of a stream: it has 1 to 512 bytes")
    return StreamName(basin_name(basin), stream)


def basin_name(text: str) -> str:
    """Return the basin that is named. Raises UsageFault."""
    basin = text.removeprefix(_SCHEME).removesuffix("/")
    if not names.is_basin_name(basin):
        raise UsageFault(names.not_a_basin_name(basin))
    return basin


def basin_and_prefix(text: str) -> tuple[str, str]:
    """Return the basin, and what the names of streams begin with. Raises UsageFault."""
    basin, _, prefix = text.removeprefix(_SCHEME).partition("/")
    return basin_name(basin), prefix
