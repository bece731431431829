"""What every handler is given: a request that has been routed, and the seams to the outside."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.metrics import Metrics
from svc_cluster.gateway.access.audit import Audit, Subject
from svc_cluster.gateway.access.authentication import Caller
from svc_cluster.gateway.api.shared_page import SharedPage
from svc_cluster.gateway.api.turns import Turns
from svc_cluster.gateway.cluster.backend import Backend
from svc_cluster.gateway.cluster.node_client import NodeBackend
from svc_cluster.gateway.cluster.token_client import TokenBackend
from svc_cluster.gateway.limits.gateway_memory import GatewayMemory
from svc_cluster.gateway.limits.rate_limiter import UNLIMITED, Allowance
from svc_cluster.gateway.records.fanout import SharedTails
from svc_cluster.gateway.records.sealer import Sealer
from svc_cluster.gateway.request.dialect import Dialect
from svc_cluster.gateway.request.fault_lines import FaultLines
from svc_cluster.gateway.request.negotiation import json_body
from svc_cluster.gateway.request.request_head import RequestHead
from svc_cluster.gateway.request.request_log import UNTIMED, Stages
from svc_cluster.gateway.request.router import Match
from svc_cluster.gateway.usage.reporter import UsageReporter
from svc_cluster.gateway.usage.usage_ledger import UsageLedger
from svc_cluster.http.message import Request

Readiness = Callable[[], Mapping[str, bool]]
"""Named checks and whether each holds; all must for the process to be ready. Must not block."""


class Siblings(Protocol):
    """The processes that serve one port together, this one among them."""

    async def page(self) -> bytes:
        """Return the metrics of all. Raises nothing: who does not answer is left out."""

    async def answering(self) -> tuple[int, int]:
        """Return how many of them serve at the moment, and how many should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """This is what tells of the interface: the OpenAPI document, and a page of HTML for people."""

    document: bytes
    page: bytes


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
    metrics_page: SharedPage
    """What `/metrics` answers."""
    compression: bool
    """Whether answers are compressed for clients that can undo it."""
    reference: Callable[[], Reference]
    draining: asyncio.Event
    """Set once the process is to stop; streams then end."""
    memory: GatewayMemory
    """What is held for all requests together. Bodies that are read as a whole are counted already;
    sessions count what they hold."""
    faults: FaultLines
    turns: Turns = field(default_factory=Turns)
    """The turns of all that is dear to make or to understand."""
    nodes: NodeBackend | None = None
    """None: there are none that could be asked."""
    tokens: TokenBackend | None = None
    """None: access tokens are not served."""
    random_bytes: Callable[[int], bytes] = os.urandom
    """For secrets."""
    audit: Audit
    usage: UsageLedger
    usage_reporter: UsageReporter | None = None
    """None: usage is not told."""
    siblings: Siblings | None = None
    """None: this process serves its port alone."""


@dataclass(frozen=True, slots=True)
class Call:
    """One routed request."""

    services: Services
    request: Request
    match: Match
    head: RequestHead
    dialect: Dialect
    caller: Caller
    subject: Subject = field(default_factory=Subject)
    """What the audit log tells of it."""
    allowance: Allowance = UNLIMITED
    """What it may take of the limits of rates."""
    stages: Stages = UNTIMED
    """Where its time goes."""

    async def json_body(self) -> bytes:
        """Return the whole body of a request that changes something, b"" where there is none.
        Raises what `negotiation.json_body` does, and what `Caller.check` does: a token may have
        been revoked while the body was on its way."""
        body = await json_body(self.request)
        self.caller.check()
        return body
