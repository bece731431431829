"""Which requests are events of the audit trail, and what of them is told.

Told are names: of the operation, of who asked (the token's id), of what it is about, and of the
refusal. Of requests that were refused only some a second are told of each token, and of all who
showed no valid one together: otherwise whoever may do nothing could fill the disk. What had, or may
have had, an effect is always told; trims and fences that are alike in one line
(command_audit.py). Read tickets are told in such lines too, and no more often than refusals: they
change nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import Counter

from svc_cluster.base.audit_trail import AuditTrail, Event
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import MalformedError, ServiceError
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.gateway.access.authentication import Caller
from svc_cluster.gateway.access.command_audit import (
    CommandKey,
    CommandMerger,
    commands_of,
    effect_of,
)
from svc_cluster.gateway.request.endpoint import Endpoint
from svc_cluster.gateway.request.negotiation import PROVISION_RESULTS, basin_of
from svc_cluster.gateway.request.router import Match, Resource, route
from svc_cluster.http.message import Request, Response
from svc_cluster.model.record import StoredBatch

AUTO_CREATE: Final = "auto-create-stream"
NOBODY: Final = "-"
REFUSALS_PER_SECOND: Final = 10.0
REFUSALS_BURST: Final = 100.0
_OWNERS_MAX: Final = 1_000
_NO_ANSWER: Final = 499
EVENT_BYTES: Final = 2048
"""About what an event takes that waits to be told."""


@dataclass(slots=True)
class Subject:
    """What a request is about, as far as it is known: filled in on the way, by handlers too where a
    name stands in the body. Streams have their full names, with the prefix of whoever asks."""

    basin: str | None = None
    stream: str | None = None
    token_id: str | None = None
    location: str | None = None


@dataclass(slots=True)
class Note:
    """An event in the making."""

    endpoint: Endpoint
    request: Request
    subject: Subject = field(default_factory=Subject)
    token: str = NOBODY
    is_known: bool = False
    """Who asks has been found out; before that nothing happens."""
    refusal: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the trail, about so many refusals, tickets or commands that are alike."""

    event: dict[str, object]
    count: int
    is_refusal: bool


@dataclass(slots=True)
class _Allowance:
    """How many refusals of one token may still be told."""

    left: float
    at: float
    """When it was that much, in monotonic seconds."""
    untold: int = 0
    """Refusals since the last one that was told."""
    last: _Line | None = None
    """The last of those, which is told when there are no more."""

    def refill(self, now: float) -> None:
        grown = (now - self.at) * REFUSALS_PER_SECOND
        self.left, self.at = min(REFUSALS_BURST, self.left + grown), now


class Audit:
    """The trail of one gateway."""

    def __init__(self, trail: AuditTrail, clock: Clock, suppressed: Counter) -> None:
        """`suppressed` counts the refusals that are not told one by one."""
        self._trail = trail
        self._clock = clock
        self._suppressed = suppressed
        self._allowances: dict[str, _Allowance] = {}
        """By token, of those that were refused something lately."""
        self._commands = CommandMerger(self._write_commands)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held_bytes(self) -> int:
        """About how much is kept of events, told and not told yet. Their numbers are bounded."""
        kept = sum(allowance.last is not None for allowance in self._allowances.values())
        return EVENT_BYTES * (self._trail.kept + len(self._commands) + kept)

    def recent(self, count: int) -> list[Event]:
        """The last events, at most so many, the newest first. They are in no file but in memory."""
        return self._trail.recent(count)

    def begin(
        self,
        request: Request,
        resource: Resource | None,
        segments: list[str],
        host_basin: str | None,
    ) -> Note | None:
        """None for what is no event. Names that cannot be read off the request stay open."""
        endpoint = None if resource is None else resource.methods.get(request.method)
        if endpoint is None or not endpoint.is_audited:
            return None
        note = Note(endpoint, request)
        try:
            match = route(resource, segments, request.method, host_basin)
        except ServiceError:
            return note
        subject = note.subject
        subject.basin, subject.stream, subject.token_id = match.basin, match.stream, match.token_id
        if endpoint.need is not None and endpoint.need.is_of_stream:
            try:
                subject.basin = basin_of(request, match.basin)
            except MalformedError:
                subject.basin = None
        return note

    def known(self, note: Note, caller: Caller) -> None:
        """Who asks has been found out."""
        note.token = caller.token_id
        note.is_known = True

    def allowed(self, note: Note, match: Match) -> None:
        """The caller may go on, and the names are whole. Raises UnavailableError while the trail
        cannot be written."""
        note.subject.stream = match.stream
        self._trail.check()

    def end(self, note: Note, response: Response | None) -> None:
        """What came of it; None: nobody waited for the answer."""
        refusal = note.refusal
        if response is None:
            effect = "possible" if note.is_known else "none"
        elif refusal is None:
            effect = "done"
        else:
            effect = "possible" if refusal.may_have_taken_effect else "none"
        if note.endpoint.is_merged and effect != "none":
            self._merge(note, response, effect)
            return
        event = self._event(note.endpoint.operation, note.token, note.subject, note.request)
        event["status"] = _NO_ANSWER if response is None else response.status
        event["code"] = None if refusal is None else refusal.code.value
        event["effect"] = effect
        event["outcome"] = None if response is None else _outcome(response)
        is_refusal = effect == "none"
        self._tell(note.token, _Line(event, 1, is_refusal), is_rationed=is_refusal)

    def before_auto_create(self) -> None:
        """Raises UnavailableError while the trail cannot be written."""
        self._trail.check()

    def auto_created(self, request: Request, caller: Caller, subject: Subject) -> None:
        """A stream was made because records were appended to it, or it was read."""
        event = self._event(AUTO_CREATE, caller.token_id, subject, request)
        event |= {"status": None, "code": None, "effect": "done", "outcome": None}
        self._trail.record(event, is_refusal=False)

    def before_commands(self) -> None:
        """Before trims and fences are appended. Raises UnavailableError while the trail cannot be
        written."""
        self._trail.check()

    def commanded(
        self,
        request: Request,
        caller: Caller,
        basin: str | None,
        stream: str,
        batch: StoredBatch,
        refusal: BaseException | None,
    ) -> None:
        """Tell what came of the trims and fences of a batch. With `refusal` None they are done.
        What is no refusal of ours is a request that was given up."""
        code = refusal.code.value if isinstance(refusal, ServiceError) else None
        now = self._clock.monotonic()
        for operation, count, trim_point in commands_of(batch):
            key = CommandKey(
                operation,
                caller.token_id,
                request.connection.address or None,
                basin,
                stream,
                effect_of(refusal),
                code,
                certificate=_certificate(request),
            )
            self._commands.add(key, count, trim_point, _request_id(request), now)
        if self._timer is None:
            self._flush_commands()

    def _merge(self, note: Note, response: Response | None, effect: str) -> None:
        """Tell an event in a line with those that are like it."""
        key = CommandKey(
            note.endpoint.operation,
            note.token,
            note.request.connection.address or None,
            note.subject.basin,
            note.subject.stream,
            effect,
            None if note.refusal is None else note.refusal.code.value,
            _NO_ANSWER if response is None else response.status,
            _certificate(note.request),
            is_rationed=True,
        )
        self._commands.add(key, 1, None, _request_id(note.request), self._clock.monotonic())
        if self._timer is None:
            self._flush_commands()

    def flush(self) -> None:
        """Nothing more comes: tell what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._commands.close()
        for allowance in self._allowances.values():
            self._tell_last(allowance)

    def _flush_commands(self) -> None:
        left = self._commands.flush(self._clock.monotonic())
        self._timer = None
        if left is not None:
            self._timer = asyncio.get_running_loop().call_later(left, self._flush_commands)

    def _write_commands(
        self, key: CommandKey, count: int, trim_point: int | None, request_id: str | None
    ) -> None:
        event: dict[str, object] = {
            "time": rfc3339(self._clock.wall_ms()),
            "operation": key.operation,
            "token": key.token,
            "address": key.address,
            "basin": key.basin,
            "stream": key.stream,
            "token_id": None,
            "location": None,
            "request_id": request_id,
            "status": key.status,
            "code": key.code,
            "effect": key.effect,
            "outcome": None,
            "count": count,
        }
        if key.certificate is not None:
            event["certificate"] = key.certificate
        if trim_point is not None:
            event["trim_point"] = trim_point
        is_refusal = key.effect == "none"
        line = _Line(event, count, is_refusal)
        self._tell(key.token, line, is_rationed=key.is_rationed or is_refusal)

    def reopen(self) -> None:
        """After the file was moved away."""
        self._trail.reopen()

    def _event(
        self, operation: str, token: str, subject: Subject, request: Request
    ) -> dict[str, object]:
        event: dict[str, object] = {
            "time": rfc3339(self._clock.wall_ms()),
            "operation": operation,
            "token": token,
            "address": request.connection.address or None,
            "basin": subject.basin,
            "stream": subject.stream,
            "token_id": subject.token_id,
            "location": subject.location,
            "request_id": _request_id(request),
        }
        certificate = _certificate(request)
        if certificate is not None:
            event["certificate"] = certificate
        return event

    def _tell(self, token: str, line: _Line, *, is_rationed: bool) -> None:
        """Write the line, which is about something of the token. If such are rationed that is at
        its rate, with how many were left out since the last one."""
        untold = 0
        if is_rationed:
            allowance = self._allowance_of(token)
            if allowance.left < 1:
                allowance.untold += line.count
                allowance.last = line
                self._suppressed.inc(line.count)
                return
            allowance.left -= 1
            untold, allowance.untold, allowance.last = allowance.untold, 0, None
        self._write(line, untold)

    def _write(self, line: _Line, untold: int) -> None:
        if untold:
            line.event["suppressed_before"] = untold
        self._trail.record(line.event, is_refusal=line.is_refusal)

    def _tell_last(self, allowance: _Allowance) -> None:
        """Tell the last of those that were left out, and with it how many there were before."""
        last, allowance.last = allowance.last, None
        if last is not None:
            untold, allowance.untold = allowance.untold - last.count, 0
            self._write(last, untold)

    def _allowance_of(self, token: str) -> _Allowance:
        now = self._clock.monotonic()
        allowance = self._allowances.get(token)
        if allowance is None:
            if len(self._allowances) >= _OWNERS_MAX:
                self._forget_the_quiet(now)
            allowance = self._allowances[token] = _Allowance(REFUSALS_BURST, now)
        allowance.refill(now)
        return allowance

    def _forget_the_quiet(self, now: float) -> None:
        """Those that may tell as much as if they were new; others are as many as are refused
        something at the moment. What was left out of them is told before."""
        for token, allowance in list(self._allowances.items()):
            allowance.refill(now)
            if allowance.left >= REFUSALS_BURST:
                self._tell_last(allowance)
                del self._allowances[token]


def _certificate(request: Request) -> str | None:
    """Return the fingerprint of what the client has shown in the handshake."""
    certificate = request.connection.certificate
    return None if certificate is None else certificate.fingerprint


def _request_id(request: Request) -> str | None:
    """Return what the request is called in its answer too; None: nobody named it."""
    return request.id or None


def _outcome(response: Response) -> str | None:
    """Created, updated or noop, of what creates or ensures."""
    return next((value for name, value in response.headers if name in PROVISION_RESULTS), None)
