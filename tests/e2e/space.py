"""How much disk each node holds after records were trimmed, have expired or were deleted.

Four streams in a running cluster, each losing its records in another way, at once: 90 % of one is
trimmed, all of one expires, one is deleted, and the last goes with its basin;
then every node's directory is measured until it is small enough. Bodies are random: what the disk
holds is not made smaller by compression.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from svc_cluster.base.clock import SystemClock
from svc_cluster.http.client import HttpResponse
from svc_cluster.lab.api_client import ApiClient, AppendRecord
from svc_cluster.lab.own_cluster import OwnCluster
from tests.e2e.load import quantile

MIB: Final = 1024 * 1024
CLOCK: Final = SystemClock()
BASIN: Final = "space-basin"
DOOMED: Final = "doomed-basin"
BODY_BYTES: Final = 64 * 1024
BATCH_RECORDS: Final = 12
KEPT_SHARE: Final = 10
"""One record in so many is kept where not all are removed."""
RETENTION_S: Final = 4
FACTOR: Final = 1.3
DEADLINE_S: Final = 120.0
GONE_S: Final = 60.0
BYSTANDER_BYTES: Final = 1024
BYSTANDER_PAUSE_S: Final = 0.01
_CALL_S: Final = 60.0


def disk_bytes(directory: Path) -> int:
    """What the files of a directory take of the disk. One of several names, as the store's tables
    have that are kept aside until they can go in steps, is counted once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                found = os.stat(os.path.join(place, name))
            except FileNotFoundError:
                continue  # a compaction has just removed it
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                total += found.st_blocks * 512
    return total


@dataclass(slots=True)
class Result:
    """Bytes, by node where they differ; seconds from the removal."""

    mib: int
    others_mib: int
    nodes: int
    floor: int
    live: int = 0
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    seconds: float = 0.0
    vanished_s: float = 0.0
    """How long after their age the expired records could still be read, at most."""
    purged_s: float = 0.0
    """How long the deleted stream was still listed."""
    appends_ms: list[float] = field(default_factory=list)
    """How long appends of 1 KiB to another stream took, one at a time, until all was small."""

    def row(self) -> dict[str, Any]:
        return {
            "trimmed_mib": self.mib,
            "others_mib": self.others_mib,
            "nodes": self.nodes,
            "floor_mib": round(self.floor / MIB, 1),
            "live_mib": round(self.live / MIB, 1),
            "before_mib": [round(size / MIB) for size in self.before],
            "after_mib": [round(size / MIB, 1) for size in self.after],
            "factor": round(max(self.after) / self.live, 3),
            "seconds": round(self.seconds, 1),
            "vanished_s": round(self.vanished_s, 1),
            "purged_s": round(self.purged_s, 1),
            "append_p50_ms": round(quantile(self.appends_ms, 0.5), 1),
            "append_p99_ms": round(quantile(self.appends_ms, 0.99), 1),
        }

    def table(self) -> str:
        lines = [f"{'node':>4} {'before MiB':>11} {'live MiB':>9} {'after MiB':>10} {'factor':>7}"]
        for node, (before, after) in enumerate(zip(self.before, self.after, strict=True), start=1):
            lines.append(
                f"{node:>4} {before / MIB:>11.0f} {self.live / MIB:>9.1f} {after / MIB:>10.1f} "
                f"{after / self.live:>7.3f}"
            )
        lines.append(
            f"small enough after {self.seconds:.1f} s; expired records gone after "
            f"{self.vanished_s:.1f} s; deleted stream purged after {self.purged_s:.1f} s"
        )
        lines.append(
            f"{len(self.appends_ms)} appends of 1 KiB meanwhile: p50 "
            f"{quantile(self.appends_ms, 0.5):.1f} ms, p99 {quantile(self.appends_ms, 0.99):.1f} ms"
        )
        return "\n".join(lines)


class Space:
    """One measurement in a running cluster."""

    def __init__(self, cluster: OwnCluster, mib: int, others_mib: int, floor: int) -> None:
        self._cluster = cluster
        self._api = ApiClient(cluster.url)
        self._reader = ApiClient(cluster.url)
        nodes = cluster.file()["nodes"]
        self._directories = [Path(node["data_dir"]) for node in nodes]
        self._records = mib * MIB // BODY_BYTES
        self._others = others_mib * MIB // BODY_BYTES
        self._small = False
        self._retention_s = RETENTION_S + mib // 8
        self.result = Result(mib, others_mib, len(nodes), floor)

    async def run(self) -> Result:
        """Fill, remove, wait. Raises AssertionError when space, names or records stay."""
        try:
            await self._fill()
            self.result.before = self._sizes()
            await self._remove()
            bystander = asyncio.create_task(self._append_on())
            await asyncio.gather(self._until_expired(), self._until_purged(), self._until_small())
            self._small = True
            await bystander
        finally:
            self._api.close()
            self._reader.close()
        return self.result

    def _sizes(self) -> list[int]:
        return [disk_bytes(directory) for directory in self._directories]

    # -- filling

    async def _fill(self) -> None:
        for basin in (BASIN, DOOMED):
            await self._api.make(CLOCK, basin, None, _CALL_S)
        await self._create("trimmed", {})
        await self._create("expiring", {"retention_policy": {"age": self._retention_s}})
        await self._create("deleted", {})
        await self._create("bystander", {})
        await self._api.make(CLOCK, DOOMED, "s", _CALL_S)
        streams = [(BASIN, "trimmed"), (BASIN, "deleted"), (DOOMED, "s"), (BASIN, "expiring")]
        await asyncio.gather(
            *(
                self._append(basin, stream, self._records if stream == "trimmed" else self._others)
                for basin, stream in streams
            )
        )
        self._expires_at = time.monotonic() + self._retention_s

    async def _create(self, stream: str, config: dict[str, Any]) -> None:
        body = json.dumps({"stream": stream, "config": config}).encode()
        await self._request("POST", "/v1/streams", body, accept={201, 409})

    async def _append(self, basin: str, stream: str, total: int) -> None:
        api = ApiClient(self._cluster.url)
        rng = random.Random(stream)
        tail = 0
        while tail < total:
            count = min(BATCH_RECORDS, total - tail)
            records = [AppendRecord(rng.randbytes(BODY_BYTES)) for _ in range(count)]
            await _append_once(api, basin, stream, records, tail)
            tail += count
        api.close()

    # -- removing

    async def _remove(self) -> None:
        kept = self._records // KEPT_SHARE
        trim = AppendRecord((self._records - kept).to_bytes(8, "big"), [(b"", b"trim")])
        self._begun = time.monotonic()
        await _append_once(self._api, BASIN, "trimmed", [trim], self._records)
        await self._request("DELETE", "/v1/streams/deleted", accept={202})
        await self._request("DELETE", f"/v1/basins/{DOOMED}", accept={202})
        self.result.live = kept * (8 + BODY_BYTES) + trim.metered_bytes()
        answer = await self._read("trimmed", self._records - kept)
        assert answer.json()["records"], "what is kept can be read"

    async def _until_expired(self) -> None:
        while True:
            answer = await self._read("expiring", 0)
            late = time.monotonic() - self._expires_at
            if answer.status == 200 and not answer.json()["records"]:
                break
            assert late < GONE_S, f"expired records are still read after {late} s"
            await asyncio.sleep(0.1)
        self.result.vanished_s = max(late, 0.0)

    async def _read(self, stream: str, seq_num: int) -> HttpResponse:
        return await self._reader.read(BASIN, stream, f"seq_num={seq_num}&count=1")

    async def _until_purged(self) -> None:
        while True:
            answer = await self._request("GET", "/v1/streams", accept={200})
            names = [stream["name"] for stream in answer.json()["streams"]]
            self.result.purged_s = time.monotonic() - self._begun
            if "deleted" not in names:
                return
            assert self.result.purged_s < GONE_S, "a deleted stream is still listed"
            await asyncio.sleep(0.1)

    async def _until_small(self) -> None:
        """Until every node is within the factor of what lives, beside the floor; counted from when
        the last of the records were due to go."""
        begun = max(self._begun, self._expires_at)
        while True:
            most = FACTOR * self.result.live + self.result.floor
            self.result.after = self._sizes()
            self.result.seconds = max(time.monotonic() - begun, 0.0)
            if max(self.result.after) <= most:
                return
            assert self.result.seconds < DEADLINE_S, f"too much is held:\n{self.result.table()}"
            await asyncio.sleep(0.25)

    async def _append_on(self) -> None:
        """What others see of it."""
        api = ApiClient(self._cluster.url)
        record = AppendRecord(bytes(BYSTANDER_BYTES))
        while not self._small:
            begun = time.monotonic()
            await _append_once(api, BASIN, "bystander", [record], len(self.result.appends_ms))
            self.result.appends_ms.append((time.monotonic() - begun) * 1000)
            self.result.live += record.metered_bytes()
            await asyncio.sleep(BYSTANDER_PAUSE_S)
        api.close()

    async def _request(
        self, method: str, path: str, body: bytes = b"", *, accept: set[int]
    ) -> HttpResponse:
        headers = {"content-type": "application/json"}
        if not path.startswith("/v1/basins"):
            headers["svc-basin"] = BASIN
        return await self._api.insist(
            CLOCK,
            lambda: self._api.http.request(method, path, headers, body),
            accept=frozenset(accept),
            deadline_s=_CALL_S,
        )


async def _append_once(
    api: ApiClient, basin: str, stream: str, records: list[AppendRecord], tail: int
) -> None:
    answer = await api.insist(
        CLOCK,
        lambda: api.append(basin, stream, records, match_seq_num=tail),
        accept=frozenset({200, 412}),
        deadline_s=_CALL_S,
    )
    # 412: the try before, of which nothing was known, has happened
    end = answer.json().get("seq_num_mismatch") or answer.json()["end"]["seq_num"]
    assert end == tail + len(records)
