"""Declarations brought to a cluster that is not always there, in virtual time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.audit_trail import AuditTrail, Event
from svc_cluster.base.errors import InvalidError, QuotaError, ServiceError, UnavailableError
from svc_cluster.gateway.api.declarer import SETTLE_SECONDS, Declarer
from svc_cluster.gateway.cluster.backend import ProvisionedBasin
from svc_cluster.gateway.cluster.token_client import TokenClient
from svc_cluster.model.access import Op, Scope
from svc_cluster.model.access_token import AccessToken, Expiry, TokenRequest
from svc_cluster.model.declarations import (
    Declarations,
    DeclaredBasin,
    DeclaredStream,
    DeclaredToken,
    SecretSource,
)
from svc_cluster.model.stream_config import BasinConfig, PartialStreamConfig, Retention
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run

NEVER = float("inf")


class LateBackend(MemoryBackend):
    """A cluster that answers only from a moment on, and refuses one basin for good."""

    def __init__(self, clock: SimClock, answers_from: float, refusal: ServiceError) -> None:
        super().__init__(clock)
        self._own_clock = clock
        self._answers_from = answers_from
        self._refusal = refusal

    async def ensure_basin(self, name: str, *args: Any, **kwargs: Any) -> ProvisionedBasin:
        if self._own_clock.monotonic() < self._answers_from:
            raise UnavailableError("nobody leads")
        if name == "refused":
            raise self._refusal
        return await super().ensure_basin(name, *args, **kwargs)


class KeptEvents:
    """An audit sink that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)

    def reopen(self) -> None: ...

    def close(self) -> None: ...


def basin(path: str, name: str, retention: int = 60) -> DeclaredBasin:
    config = PartialStreamConfig(retention=Retention(retention))
    stream = DeclaredStream(f"{path}.streams[0]", "s", config)
    return DeclaredBasin(path, name, BasinConfig(create_stream_on_read=True), None, (stream,))


def declarer(
    backend: MemoryBackend, clock: SimClock, declared: Declarations
) -> tuple[Declarer, KeptEvents]:
    sink = KeptEvents()
    made = Declarer(
        declared,
        backend,
        clock=clock,
        rng=random.Random(7),
        trail=AuditTrail(sink),
        token_backend=TokenClient(None, clock),  # type: ignore[arg-type]  # no token is declared
    )
    return made, sink


def told(sink: KeptEvents) -> list[tuple[object, object, object]]:
    return [(each["operation"], each["basin"], each["outcome"]) for each in sink.events]


@pytest.mark.parametrize("refusal", [QuotaError("full"), InvalidError("no")])
def test_a_cluster_that_comes_late_gets_all_but_what_it_refuses(refusal: ServiceError) -> None:
    """It is asked again until it answers; a refusal for good is not, and the streams of a refused
    basin are not asked for. The second time nothing is done, the third what has changed."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        backend = LateBackend(clock, clock.monotonic() + 20, refusal)
        declared = Declarations((basin("basins[0]", "refused"), basin("basins[1]", "wanted-1")))
        first, sink = declarer(backend, clock, declared)
        settled = [first.is_settled]
        await first.run()
        settled.append(first.is_settled)
        assert settled == [False, True]
        made = [("declare-basin", "wanted-1", "created"), ("declare-stream", "wanted-1", "created")]
        assert told(sink) == made
        assert (await backend.get_basin_config("wanted-1")).create_stream_on_read
        again, sink = declarer(backend, clock, declared)
        await again.run()
        assert told(sink) == []
        third, sink = declarer(backend, clock, Declarations((basin("basins[0]", "wanted-1", 90),)))
        await third.run()
        assert told(sink) == [("declare-stream", "wanted-1", "updated")]
        assert (await backend.get_stream_config("wanted-1", "s")).retention == Retention(90)

    run(lambda loop: main())


def test_a_cluster_that_never_answers_keeps_no_gateway_from_its_requests() -> None:
    """It is not ready for SETTLE_SECONDS, and goes on asking behind that."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        backend = LateBackend(clock, NEVER, InvalidError("no"))
        one, sink = declarer(backend, clock, Declarations((basin("basins[0]", "wanted-1"),)))
        running = asyncio.get_running_loop().create_task(one.run())
        await asyncio.sleep(SETTLE_SECONDS - 1)
        settled = [one.is_settled]
        await asyncio.sleep(2)
        settled.append(one.is_settled)
        assert settled == [False, True]
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert told(sink) == []

    run(lambda loop: main())


def test_a_token_differs_in_its_secret_and_in_what_it_gives() -> None:
    """Each of hash, scope, prefixing and expiry counts and is named; serial, parent and how a
    moment is written do not."""
    scope = Scope(ops=(Op.READ,))
    moment = Expiry.parse("2040-01-01T00:00:00Z")
    declared = DeclaredToken(
        "access_tokens[0]",
        TokenRequest("t", scope, expires_at=moment),
        SecretSource("access_tokens[0].secret_env", variable="T"),
        b"h" * 32,
    )
    same = Expiry.parse("2040-01-01T01:00:00+01:00")
    token = AccessToken(7, "t", b"h" * 32, 3, scope, expires_at=same)
    assert declared.differences(token) == []
    for other, differing in (
        (replace(token, secret_hash=b"x" * 32), ["secret"]),
        (replace(token, scope=Scope(ops=(Op.APPEND,))), ["scope"]),
        (replace(token, auto_prefix_streams=True), ["auto_prefix_streams"]),
        (replace(token, expires_at=None), ["expires_at"]),
        (replace(token, secret_hash=b"x", expires_at=None), ["secret", "expires_at"]),
    ):
        assert declared.differences(other) == differing
