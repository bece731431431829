"""This is closed-loop load for `svc-cluster bench`. There is one request at a time on each
connection, encoded once so that the generator costs little, with every latency kept."""

from __future__ import annotations

import asyncio
import itertools
import os
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import Clock
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import ApiClient, ApiError, AppendRecord, append_body, records_path
from svc_cluster.lab.proc_stat import cluster_pids, cpu_seconds

_SET_UP_S: Final = 30.0
_AFTER_ERROR_S: Final = 0.02
_METERED_OVERHEAD: Final = 8
_WARM_UP_S: Final = 0.5

Span = tuple[float, float]
"""Begin and end of what is measured, on the clock."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a cluster for `duration_s` seconds: batches of `batch` records of `size`
    bytes. The connections are spread over streams of one basin."""

    url: str
    basin: str
    streams: Sequence[str]
    size: int
    batch: int
    connections: int
    duration_s: float
    encoding: str = "json"
    """The format of bodies: `json` or `protobuf`."""
    cluster_dir: Path | None = None
    """The directory of a local cluster, whose processor time is measured as well."""

    @property
    def metered_bytes(self) -> int:
        """What one batch counts as."""
        return self.batch * (self.size + _METERED_OVERHEAD)

    def stream(self, connection: int) -> str:
        return self.streams[connection % len(self.streams)]


@dataclass(slots=True)
class Result:
    """What one run measured. Latencies are in seconds."""

    operation: str
    connections: int
    seconds: float = 0.0
    requests: int = 0
    records: int = 0
    metered_bytes: int = 0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)
    cluster_cpu_s: float | None = None
    generator_cpu_s: float = 0.0

    def summary(self) -> dict[str, Any]:
        """The figures, with units in the names."""
        ordered = sorted(self.latencies)

        def quantile_ms(share: float) -> float | None:
            if not ordered:
                return None
            return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 3)

        figures: dict[str, Any] = {
            "operation": self.operation,
            "connections": self.connections,
            "seconds": round(self.seconds, 3),
            "requests": self.requests,
            "requests_per_s": round(self.requests / self.seconds, 1),
            "records_per_s": round(self.records / self.seconds, 1),
            "metered_mib_per_s": round(self.metered_bytes / self.seconds / 2**20, 3),
            "p50_ms": quantile_ms(0.50),
            "p99_ms": quantile_ms(0.99),
            "p99_9_ms": quantile_ms(0.999),
            "max_ms": round(ordered[-1] * 1000, 3) if ordered else None,
            "errors": dict(self.errors),
            "generator_cpu_s": round(self.generator_cpu_s, 2),
        }
        if self.cluster_cpu_s is not None and self.requests:
            figures["cluster_cpu_us_per_request"] = round(
                self.cluster_cpu_s / self.requests * 1e6, 1
            )
        return figures


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def protobuf_append(records: list[AppendRecord]) -> bytes:
    """`s2.v1.AppendInput` of records without headers: field 1 = AppendRecord{field 3 = body}."""
    out = bytearray()
    for record in records:
        inner = b"\x1a" + _varint(len(record.body)) + record.body
        out += b"\x0a" + _varint(len(inner)) + inner
    return bytes(out)


def append_request(
    client: HttpClient, basin: str, stream: str, records: list[AppendRecord], encoding: str
) -> bytes:
    """A whole append request, ready to be sent again and again."""
    headers = {"svc-basin": basin, "content-type": "application/json"}
    body = append_body(records)
    if encoding == "protobuf":
        headers["content-type"] = "application/protobuf"
        body = protobuf_append(records)
    return client.encode("POST", records_path(stream), headers, body)


async def _worker(
    client: HttpClient,
    requests: Sequence[bytes],
    first: int,
    load: Load,
    result: Result,
    clock: Clock,
    span: Span,
) -> None:
    """Send `requests` in turns until the end of the span; count what begins inside it."""
    begin, end = span
    turns = itertools.cycle(itertools.chain(requests[first:], requests[:first]))
    while (started := clock.monotonic()) < end:
        try:
            response = await client.exchange(next(turns))
        except ConnectionLostError as error:
            result.errors["connection_lost" if error.sent else "not_connected"] += 1
            await asyncio.sleep(_AFTER_ERROR_S)
            continue
        if response.status != 200:
            effects = response.headers.get("svc-side-effects", "-")
            result.errors[f"{response.status}/{effects}"] += 1
            await asyncio.sleep(_AFTER_ERROR_S)
        elif started >= begin:
            result.latencies.append(clock.monotonic() - started)
            result.requests += 1
            result.records += load.batch
            result.metered_bytes += load.metered_bytes
    client.close()


def _cluster_cpu_s(directory: Path | None) -> float | None:
    if directory is None:
        return None
    return sum(cpu_seconds(pid) for pid in cluster_pids(read_cluster_file(directory)))


async def measure(
    result: Result,
    clock: Clock,
    load: Load,
    worker: Callable[[int, Span], Awaitable[None]],
) -> None:
    """Run what `worker` makes for each connection, by number, and take processor times around the
    span."""
    begin = clock.monotonic() + _WARM_UP_S
    span = (begin, begin + load.duration_s)
    own = os.getpid()
    work = asyncio.gather(*(worker(number, span) for number in range(load.connections)))
    await asyncio.sleep(_WARM_UP_S)
    before, own_before = _cluster_cpu_s(load.cluster_dir), cpu_seconds(own)
    await work
    after = _cluster_cpu_s(load.cluster_dir)
    result.seconds = clock.monotonic() - begin
    result.generator_cpu_s = cpu_seconds(own) - own_before
    if before is not None and after is not None:
        result.cluster_cpu_s = after - before


async def set_up(url: str, basin: str, streams: Sequence[str], clock: Clock) -> None:
    """Make what is not there. Raises ApiError."""
    api = ApiClient(url)
    await api.make(clock, basin, None, _SET_UP_S)
    for stream in streams:
        await api.make(clock, basin, stream, _SET_UP_S)
    api.close()


async def run_append(load: Load, clock: Clock) -> Result:
    """Append identical batches."""
    await set_up(load.url, load.basin, load.streams, clock)
    result = Result("append", load.connections)
    pattern = bytes(range(33, 127)) * (load.size // 94 + 1)
    records = [AppendRecord(pattern[: load.size])] * load.batch

    def worker(number: int, span: Span) -> Awaitable[None]:
        client = HttpClient(load.url)
        request = append_request(client, load.basin, load.stream(number), records, load.encoding)
        return _worker(client, [request], 0, load, result, clock, span)

    await measure(result, clock, load, worker)
    return result


async def run_read(load: Load, clock: Clock) -> Result:
    """Read a batch a request, round and round through what the streams hold. Streams that hold less
    than ten batches are filled first."""
    await set_up(load.url, load.basin, load.streams, clock)
    tails = await _filled(load)
    result = Result("read", load.connections)
    accept = "application/json" if load.encoding == "json" else "application/protobuf"
    headers = {"svc-basin": load.basin, "svc-format": "base64", "accept": accept}

    def worker(number: int, span: Span) -> Awaitable[None]:
        client = HttpClient(load.url)
        stream = load.stream(number)
        requests = [
            client.encode(
                "GET", f"{records_path(stream)}?seq_num={at}&count={load.batch}", headers, b""
            )
            for at in range(0, tails[stream] - load.batch + 1, load.batch)
        ]
        return _worker(client, requests, number % len(requests), load, result, clock, span)

    await measure(result, clock, load, worker)
    return result


async def _filled(load: Load) -> dict[str, int]:
    """The number of records in each stream, ten batches at least. Raises ApiError."""
    api = ApiClient(load.url)
    tails: dict[str, int] = {}
    most = max(1, 900_000 // (load.size + _METERED_OVERHEAD))
    records = [AppendRecord(b"r" * load.size)] * min(load.batch, most)
    for stream in load.streams:
        tail = 0
        while tail < 10 * load.batch:
            answer = await api.append(load.basin, stream, records)
            if answer.status != 200:
                raise ApiError(f"cannot fill {stream}: {answer.status} {answer.body!r}")
            tail = int(answer.json()["tail"]["seq_num"])
        tails[stream] = tail
    api.close()
    return tails
