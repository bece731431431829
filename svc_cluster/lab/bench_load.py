"""This is closed-loop load for `svc-cluster bench`. There is one request at a time on each
connection, encoded once so that the generator costs little, with every latency kept."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.cli.cluster_file import read_cluster_file
from svc_cluster.http.client import ConnectionLostError, HttpClient
from svc_cluster.lab.api_client import ApiClient, ApiError, AppendRecord, append_body, records_path
from svc_cluster.lab.proc_stat import cluster_pids, cpu_seconds

_SET_UP_S: Final = 30.0
_AFTER_ERROR_S: Final = 0.02
_METERED_OVERHEAD: Final = 8
_WARM_UP_S: Final = 0.5


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
    request: Callable[[], bytes],
    records: int,
    record_bytes: int,
    result: Result,
    clock: Clock,
    span: tuple[float, float],
) -> None:
    """Send until the end of the span; count what begins inside it."""
    begin, end = span
    while (started := clock.monotonic()) < end:
        try:
            response = await client.exchange(request())
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
            result.records += records
            result.metered_bytes += records * record_bytes
    client.close()


def _cluster_cpu_s(directory: Path | None) -> float | None:
    if directory is None:
        return None
    return sum(cpu_seconds(pid) for pid in cluster_pids(read_cluster_file(directory)))


async def measure(
    result: Result,
    clock: Clock,
    duration_s: float,
    cluster_dir: Path | None,
    start: Callable[[tuple[float, float]], list[Any]],
) -> None:
    """Run the workers that `start(span)` makes, and take processor times around the span."""
    begin = clock.monotonic() + _WARM_UP_S
    end = begin + duration_s
    own = os.getpid()
    load = asyncio.gather(*start((begin, end)))
    await asyncio.sleep(_WARM_UP_S)
    before, own_before = _cluster_cpu_s(cluster_dir), cpu_seconds(own)
    await load
    after = _cluster_cpu_s(cluster_dir)
    result.seconds = clock.monotonic() - begin
    result.generator_cpu_s = cpu_seconds(own) - own_before
    if before is not None and after is not None:
        result.cluster_cpu_s = after - before


async def set_up(url: str, basin: str, streams: list[str], clock: Clock) -> None:
    """Make what is not there. Raises ApiError."""
    api = ApiClient(url)
    await api.make(clock, basin, None, _SET_UP_S)
    for stream in streams:
        await api.make(clock, basin, stream, _SET_UP_S)
    api.close()


async def run_append(
    url: str,
    basin: str,
    streams: list[str],
    *,
    size: int,
    batch: int,
    connections: int,
    duration_s: float,
    encoding: str = "json",
    cluster_dir: Path | None = None,
    clock: Clock | None = None,
) -> Result:
    """Append identical batches of `batch` records of `size` bytes for `duration_s` seconds."""
    clock = clock or SystemClock()
    await set_up(url, basin, streams, clock)
    result = Result("append", connections)
    pattern = bytes(range(33, 127)) * (size // 94 + 1)
    records = [AppendRecord(pattern[:size])] * batch

    def start(span: tuple[float, float]) -> list[Any]:
        workers: list[Any] = []
        for number in range(connections):
            client = HttpClient(url)
            stream = streams[number % len(streams)]
            request = append_request(client, basin, stream, records, encoding)
            workers.append(
                _worker(
                    client,
                    lambda request=request: request,  # type: ignore[misc]
                    batch,
                    size + _METERED_OVERHEAD,
                    result,
                    clock,
                    span,
                )
            )
        return workers

    await measure(result, clock, duration_s, cluster_dir, start)
    return result


async def run_read(
    url: str,
    basin: str,
    streams: list[str],
    *,
    size: int,
    batch: int,
    connections: int,
    duration_s: float,
    encoding: str = "json",
    cluster_dir: Path | None = None,
    clock: Clock | None = None,
) -> Result:
    """Read `batch` records a request, round and round through what the streams hold. Streams that
    hold less than ten batches are filled first with records of `size` bytes."""
    clock = clock or SystemClock()
    await set_up(url, basin, streams, clock)
    api = ApiClient(url)
    tails: dict[str, int] = {}
    fill = [AppendRecord(b"r" * size)] * min(batch, max(1, 900_000 // (size + _METERED_OVERHEAD)))
    for stream in streams:
        tail = 0
        while tail < 10 * batch:
            answer = await api.append(basin, stream, fill)
            if answer.status != 200:
                raise ApiError(f"cannot fill {stream}: {answer.status} {answer.body!r}")
            tail = int(answer.json()["tail"]["seq_num"])
        tails[stream] = tail
    api.close()
    result = Result("read", connections)
    accept = "application/json" if encoding == "json" else "application/protobuf"

    def start(span: tuple[float, float]) -> list[Any]:
        workers: list[Any] = []
        for number in range(connections):
            client = HttpClient(url)
            stream = streams[number % len(streams)]
            requests = [
                client.encode(
                    "GET",
                    f"{records_path(stream)}?seq_num={at}&count={batch}",
                    {"svc-basin": basin, "svc-format": "base64", "accept": accept},
                    b"",
                )
                for at in range(0, tails[stream] - batch + 1, batch)
            ]
            turn = iter(range(number, 1 << 62))
            workers.append(
                _worker(
                    client,
                    lambda requests=requests, turn=turn: requests[next(turn) % len(requests)],  # type: ignore[misc]
                    batch,
                    size + _METERED_OVERHEAD,
                    result,
                    clock,
                    span,
                )
            )
        return workers

    await measure(result, clock, duration_s, cluster_dir, start)
    return result
