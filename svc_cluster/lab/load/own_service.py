"""A scenario against a cluster of its own, which is there for nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import Clock
from svc_cluster.http.client import HttpClient
from svc_cluster.lab.load.figures import Figures
from svc_cluster.lab.load.requests import Dialect, LoadAccess
from svc_cluster.lab.load.run import LoadTarget, Run
from svc_cluster.lab.load.scenarios import Scenario
from svc_cluster.lab.load.slow_disk import forget_cached, slowed
from svc_cluster.lab.own_cluster import ClusterError, Groups, OwnCluster

BASIN: Final = "bench-basin"
_TOKEN_S_MAX: Final = 30.0
_READY_S_MAX: Final = 60.0
_POLL_S: Final = 0.05


def _text_of(path: Path) -> str:
    """What a file says; nothing where there is none yet."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def _terms(groups: Groups) -> dict[str, int]:
    """The latest term of each group, by what it is of."""
    terms: dict[str, int] = {}
    for found in groups.values():
        for group in found:
            name = str(group["basin"])
            terms[name] = max(terms.get(name, 0), int(group["term"]))
    return terms


@dataclass(slots=True)
class OwnService:
    """Three nodes and a gateway in `directory`, which ask for access tokens unless told not to."""

    directory: Path
    clock: Clock
    auth: bool = True
    dialect: Dialect = "svc"
    _cluster: OwnCluster | None = field(default=None, init=False)

    async def start(self, *, sync_delay_ms: float = 0.0, read_delay_ms: float = 0.0) -> LoadTarget:
        """Start it, again where it has been. Raises ClusterError, FileNotFoundError."""
        token_file = self.directory / "root-token"
        options = ["--auth", "--root-token-file", str(token_file)] if self.auth else ["--no-auth"]
        prefix = slowed(sync_delay_ms, read_delay_ms)
        self._cluster = OwnCluster(self.directory / "cluster", options=options, prefix=prefix)
        self._cluster.start()
        await self._cluster.wait_ready(_READY_S_MAX)
        token = await self._token(token_file) if self.auth else None
        access = LoadAccess(self._cluster.url, token, self.dialect)
        return LoadTarget(access, BASIN, self._cluster.pids(), self._cluster.directory)

    async def _token(self, path: Path) -> str:
        """The root token, once it is taken: the nodes have it first, then the gateway."""
        assert self._cluster is not None, "started"
        end, last = self.clock.monotonic() + _TOKEN_S_MAX, "it is not there"
        async with HttpClient(self._cluster.url) as client:
            while self.clock.monotonic() < end:
                token = _text_of(path)
                if token:
                    headers = LoadAccess(self._cluster.url, token).headers()
                    status = (await client.request("GET", "/v1/basins", headers)).status
                    if status == 200:
                        return token
                    last = f"the gateway answers {status}"
                await asyncio.sleep(_POLL_S)
        raise ClusterError(f"no root token after {_TOKEN_S_MAX} s: {last}")

    async def terms(self) -> dict[str, int]:
        assert self._cluster is not None, "started"
        return _terms(await self._cluster.groups())

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()

    async def measure(self, scenario: Scenario, warm_up_s: float, seed: int) -> list[Figures]:
        """The figures of one run, with the elections that happened meanwhile. Raises ClusterError,
        FileNotFoundError, ApiError, LoadError."""
        cold = scenario.read_delay_ms > 0
        sync_delay_ms = scenario.sync_delay_ms
        service = await self.start(sync_delay_ms=0.0 if cold else sync_delay_ms)
        run = Run(scenario, service, warm_up_s, self.clock, seed)
        await run.fill()
        if cold:
            self.stop()
            forget_cached(self.directory / "cluster")
            service = await self.start(
                sync_delay_ms=sync_delay_ms, read_delay_ms=scenario.read_delay_ms
            )
            run.move(service)
        before = await self.terms()
        rows = await run.measure()
        after = await self.terms()
        elections = sum(term - before.get(name, term) for name, term in after.items())
        return [row | {"elections": elections} for row in rows]
