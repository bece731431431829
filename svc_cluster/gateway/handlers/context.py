"""What every handler is given: a request that has been routed, and the seams to the outside."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from svc_cluster.base.clock import Clock
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.answer_room import AnswerRoom
from svc_cluster.gateway.audit import Audit, Subject
from svc_cluster.gateway.authentication import Caller
from svc_cluster.gateway.backend import Backend
from svc_cluster.gateway.fanout import SharedTails
from svc_cluster.gateway.http.body_budget import BodyBudget
from svc_cluster.gateway.http.dialect import Dialect
from svc_cluster.gateway.http.message import Request, Response
from svc_cluster.gateway.http.router import Match
from svc_cluster.gateway.rate_limiter import UNLIMITED, Allowance
from svc_cluster.gateway.sealer import Sealer
from svc_cluster.gateway.token_client import TokenBackend
from svc_cluster.gateway.usage import UsageLedger
from svc_cluster.gateway.usage_reporter import UsageReporter

Readiness = Callable[[], Mapping[str, bool]]
"""Named checks and whether each holds; all must for the process to be ready. Must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The seams, shared by all requests."""

    backend: Backend
    tails: SharedTails
    """What followers wait at."""
    sealer: Sealer
    clock: Clock
    rng: random.Random
    metrics: Metrics
    readiness: Readiness
    version: str
    draining: asyncio.Event
    """Set once the process is to stop; streams then end."""
    body_budget: BodyBudget
    """Of all request bodies together. Bodies that are read as a whole are counted already;
    sessions count what they hold."""
    answers: AnswerRoom = field(default_factory=AnswerRoom)
    """Of all unary reads together."""
    tokens: TokenBackend | None = None
    """None: access tokens are not served."""
    random_bytes: Callable[[int], bytes] = os.urandom
    """For secrets."""
    audit: Audit
    usage: UsageLedger
    usage_reporter: UsageReporter | None = None
    """None: usage is not told."""


@dataclass(frozen=True, slots=True)
class Call:
    """One routed request."""

    services: Services
    request: Request
    match: Match
    dialect: Dialect
    caller: Caller
    subject: Subject = field(default_factory=Subject)
    """What the audit log tells of it."""
    allowance: Allowance = UNLIMITED
    """What it may take of the limits of rates."""


Handler = Callable[[Call], Awaitable[Response]]
