"""Declarations brought to the cluster: made where they are missing, changed where they differ.

An access token cannot be changed and is never revoked here: its holders would be without one, and
what is issued in its place may be refused. One that differs is left and its declaration refused.

Several gateways may do the same at the same time: each step is one that the cluster decides, and
nothing is done for what is as it was declared.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import ErrorCode, InvalidError, ServiceError
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import Seldom
from svc_cluster.base.telling import quoted
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.gateway.access.audit import NOBODY
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.backend import Backend
from svc_cluster.gateway.cluster.token_client import TokenBackend
from svc_cluster.model.access_token import AuthenticationOff
from svc_cluster.model.declarations import (
    Declarations,
    DeclaredBasin,
    DeclaredStream,
    DeclaredToken,
)
from svc_cluster.model.provision import Provision
from svc_cluster.model.stream_config import S2_STORAGE_CLASS_DEFAULT, NewStream

SETTLE_SECONDS: Final = 30.0
"""So long a gateway is not ready for the sake of what it declares; what is left then goes on
beside its requests."""
PAUSE_SECONDS: Final = (0.2, 5.0)
"""Between attempts, the first and the longest pause."""
NAMES_TOLD_MAX: Final = 20
"""So many are named in the log of each outcome, the others counted."""

FINAL_REFUSALS: Final = frozenset(
    {
        ErrorCode.BAD_JSON,
        ErrorCode.INVALID,
        ErrorCode.NOT_IMPLEMENTED,
        ErrorCode.PERMISSION_DENIED,
        ErrorCode.QUOTA_EXHAUSTED,
    }
)
"""These do not pass by themselves: the declaration is given up until the next start."""

_WORDS: Final = {
    Provision.CREATED: "created",
    Provision.UPDATED: "changed",
    Provision.NOOP: "unchanged",
}
_AUDITED: Final = {Provision.CREATED: "created", Provision.UPDATED: "updated"}

log = get_logger("declarations")


@dataclass(frozen=True, slots=True)
class KnownTokens:
    """The access tokens as this gateway knows them, and what makes it know all there are."""

    directory: TokenDirectory
    keeper: LeaseKeeper


@dataclass(frozen=True, slots=True)
class _Subject:
    """What an event of the audit log is about."""

    operation: str
    basin: str | None = None
    stream: str | None = None
    token_id: str | None = None


@dataclass(slots=True)
class _Outcomes:
    """What has come of the declarations until now, by name."""

    by_path: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path to outcome and name, the first outcome of each."""

    def note(self, path: str, outcome: str, name: str) -> None:
        """The first one stands: what this gateway has made itself is there at the next attempt."""
        self.by_path.setdefault(path, (outcome, name))

    def is_refused(self, path: str) -> bool:
        return self.by_path.get(path, ("", ""))[0] == "refused"

    def of(self, outcome: str) -> list[str]:
        return [name for found, name in self.by_path.values() if found == outcome]


class Declarer:
    """Brings the declarations of one gateway to its cluster, once."""

    def __init__(
        self,
        declared: Declarations,
        backend: Backend,
        *,
        clock: Clock,
        rng: random.Random,
        trail: AuditTrail,
        token_backend: TokenBackend,
        known: KnownTokens | None = None,
    ) -> None:
        """`known` is needed where there are tokens among the declarations."""
        assert known is not None or not declared.tokens, "tokens are compared with those there are"
        self._declared = declared
        self._backend = backend
        self._clock = clock
        self._rng = rng
        self._trail = trail
        self._token_backend = token_backend
        self._known = known
        self._outcomes = _Outcomes()
        self._failures = Seldom()
        self._began_at = clock.monotonic()
        self._is_done = declared.count == 0

    @property
    def is_settled(self) -> bool:
        """Whether requests need not wait any more: all is done, or SETTLE_SECONDS are over."""
        return self._is_done or self._clock.monotonic() >= self._began_at + SETTLE_SECONDS

    async def run(self) -> None:
        """Returns when each declaration holds, or was refused for good."""
        left: list[Callable[[], Coroutine[Any, Any, bool]]] = [
            *(partial(self._basin, basin) for basin in self._declared.basins),
            *(partial(self._token, token) for token in self._declared.tokens),
        ]
        pause, longest = PAUSE_SECONDS
        while left := [attempt for attempt in left if not await attempt()]:
            await asyncio.sleep(pause * (1 + self._rng.random()))
            pause = min(pause * 2, longest)
        self._is_done = True
        self._tell()

    def _tell(self) -> None:
        fields: dict[str, object] = {}
        for outcome in ("created", "changed", "unchanged", "expired", "refused"):
            found = self._outcomes.of(outcome)
            fields[outcome] = len(found)
            if found and outcome != "unchanged":
                fields[f"{outcome}_names"] = found[:NAMES_TOLD_MAX]
        log.info("declarations_applied", **fields)

    async def _basin(self, basin: DeclaredBasin) -> bool:
        """Whether the basin and all its streams are settled."""
        if not await self._attempt(basin.path, basin.name, self._ensure_basin(basin)):
            return False
        if self._outcomes.is_refused(basin.path):
            return True
        settled = True
        for stream in basin.streams:
            if stream.path in self._outcomes.by_path:
                continue
            name = f"{basin.name}/{stream.name}"
            done = self._ensure_stream(basin, stream)
            settled = await self._attempt(stream.path, name, done) and settled
        return settled

    async def _token(self, token: DeclaredToken) -> bool:
        return await self._attempt(token.path, token.request.token_id, self._ensure_token(token))

    async def _attempt(self, path: str, name: str, done: Coroutine[Any, Any, str]) -> bool:
        """False: it may go well later."""
        try:
            outcome = await done
        except ServiceError as refusal:
            if refusal.code in FINAL_REFUSALS:
                log.error("declaration_refused", path=path, name=name, reason=refusal.message)
                self._outcomes.note(path, "refused", name)
                return True
            count = self._failures.note(self._clock.monotonic())
            if count is not None:
                log.warning(
                    "declarations_wait", path=path, name=name, reason=refusal.message, count=count
                )
            return False
        self._outcomes.note(path, outcome, name)
        return True

    async def _ensure_basin(self, basin: DeclaredBasin) -> str:
        async def ensure() -> Provision:
            made = await self._backend.ensure_basin(
                basin.name, basin.config, location=basin.location, asked_by=AuthenticationOff.OFF
            )
            return made.outcome

        return await self._audited(ensure(), _Subject("declare-basin", basin=basin.name))

    async def _ensure_stream(self, basin: DeclaredBasin, stream: DeclaredStream) -> str:
        async def ensure() -> Provision:
            new = NewStream(stream.config, S2_STORAGE_CLASS_DEFAULT)
            return (await self._backend.ensure_stream(basin.name, stream.name, new)).outcome

        subject = _Subject("declare-stream", basin=basin.name, stream=stream.name)
        return await self._audited(ensure(), subject)

    async def _ensure_token(self, token: DeclaredToken) -> str:
        """Raises InvalidError for one that is there and differs."""
        assert self._known is not None, "looked at when this was made"
        token_id, expiry = token.request.token_id, token.request.expires_at
        if expiry is not None and expiry.is_over(self._clock.wall_ms()):
            return "expired"
        await self._known.keeper.look_up()
        owner = self._known.directory.find(token.secret_hash)
        if owner is not None and owner.token_id != token_id:
            raise InvalidError(f"its secret is that of the access token {quoted(owner.token_id)}")
        there = self._known.directory.of_id(token_id)
        if there is not None:
            differing = token.differences(there)
            if differing:
                raise InvalidError(
                    f"the access token {quoted(token_id)} is there with another "
                    f"{', '.join(differing)} and stays as it is; to have the declared one, revoke "
                    "it by hand and start again"
                )
            return "unchanged"

        async def issue() -> Provision:
            # one that another gateway issues meanwhile is no final refusal: it is compared next
            await self._token_backend.issue(token.request, token.secret_hash, AuthenticationOff.OFF)
            return Provision.CREATED

        return await self._audited(issue(), _Subject("declare-access-token", token_id=token_id))

    async def _audited(self, change: Coroutine[Any, Any, Provision], subject: _Subject) -> str:
        """Make the change and tell the audit log, unless nothing was done. What may have been done
        is told too: the next attempt finds it as declared and has nothing to tell. Raises
        UnavailableError, and changes nothing, while the audit log cannot be written."""
        with contextlib.closing(change):
            self._trail.check()
            try:
                outcome = await change
            except ServiceError as refusal:
                if refusal.may_have_taken_effect:
                    self._record(subject, "possible", code=refusal.code)
                raise
        if outcome is not Provision.NOOP:
            self._record(subject, "done", outcome=outcome)
        return _WORDS[outcome]

    def _record(
        self,
        subject: _Subject,
        effect: str,
        *,
        outcome: Provision | None = None,
        code: ErrorCode | None = None,
    ) -> None:
        event: dict[str, object] = {
            "time": rfc3339(self._clock.wall_ms()),
            "operation": subject.operation,
            "token": NOBODY,
            "address": None,
            "basin": subject.basin,
            "stream": subject.stream,
            "token_id": subject.token_id,
            "location": None,
            "request_id": None,
            "status": None,
            "code": None if code is None else code.value,
            "effect": effect,
            "outcome": None if outcome is None else _AUDITED[outcome],
        }
        self._trail.record(event, is_refusal=False)
