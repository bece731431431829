"""A node that is not a member yet waits here. It asks the others whether they know it, answers
probes, and has no part in any decision. Its log and its store are not opened before."""

from __future__ import annotations

import asyncio
import json
import secrets
from enum import Enum
from pathlib import Path
from typing import Final

from svc_cluster.base.clock import Clock, SystemClock
from svc_cluster.base.errors import ServiceError
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.metrics import CONTENT_TYPE, Metrics
from svc_cluster.cli.processes.boot import unlistenable
from svc_cluster.cli.processes.process import say_build
from svc_cluster.cli.processes.start_checks import check_data_dir
from svc_cluster.cli.processes.tls_files import peer_tls
from svc_cluster.gateway.request.error_answers import refused
from svc_cluster.http.message import Request, Response
from svc_cluster.http.server import serve
from svc_cluster.link.connector import introduce
from svc_cluster.link.conversation import Terms
from svc_cluster.link.greeting import RefusedError, Speaker
from svc_cluster.link.handshake import NOT_A_MEMBER, Identity
from svc_cluster.link.tls import CertificateError, PeerTls, node_name
from svc_cluster.link.tls_context import caller_context
from svc_cluster.settings import NodeSettings
from svc_cluster.settings_checks import read_secret

ASK_SECONDS: Final = 10.0
"""Pause between two rounds; the nodes that are asked write a line in their logs each time."""
ANSWER_SECONDS: Final = 3.0

log = get_logger("join")


class Standing(Enum):
    """What another node says of this one."""

    MEMBER = "member"
    STRANGER = "stranger"
    SILENT = "silent"


async def wait_for_membership(settings: NodeSettings, stop: asyncio.Event) -> None:
    """Return when one of the other nodes knows this one, or `stop` is set. Raises SettingsError for
    what a start would be refused for too."""
    secret = read_secret(settings.secret_file)
    check_data_dir(Path(settings.data_dir))
    tls = peer_tls(settings)
    host, _, port = settings.admin_address.rpartition(":")
    try:
        pages = await serve(_WaitingPages(), host.strip("[]"), int(port), plain=False)
    except OSError as cause:
        raise unlistenable(f"admin_address {settings.admin_address}", cause) from cause
    told: Standing | None = None
    try:
        while not stop.is_set():
            standing = await _standing(settings, secret, tls)
            if standing is Standing.MEMBER:
                return
            if standing is not told:
                told = standing
                _tell(settings, standing)
            try:
                async with asyncio.timeout(ASK_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue
    finally:
        await pages.close(0.2)


def _tell(settings: NodeSettings, standing: Standing) -> None:
    """Once for each standing, not once for each round."""
    if standing is Standing.STRANGER:
        text = "this node is not a member of the cluster: it serves nothing until it is made one"
    else:
        text = "no other node answers yet"
    log.warning("waiting_for_membership", node=settings.node_id, reason=text)


async def _standing(settings: NodeSettings, secret: bytes, tls: PeerTls | None) -> Standing:
    """What the others say, the best of it: one that knows this node is enough."""
    own = str(settings.node_id)
    others = [(NodeId(int(n)), address) for n, address in settings.nodes.items() if n != own]
    answers = await asyncio.gather(
        *(_ask(settings, node, address, secret, tls) for node, address in others)
    )
    for standing in (Standing.MEMBER, Standing.STRANGER):
        if standing in answers:
            return standing
    return Standing.SILENT


async def _ask(
    settings: NodeSettings, node: NodeId, address: str, secret: bytes, tls: PeerTls | None
) -> Standing:
    # the data directory may have no identity yet; whether the id is known comes first in any case
    identity = Identity(
        settings.cluster_id, "node", NodeId(settings.node_id), secrets.token_hex(16)
    )
    terms = Terms(secret, Speaker(identity), lambda _: None)
    try:
        context = None if tls is None else caller_context(tls)
        async with asyncio.timeout(ANSWER_SECONDS):
            await introduce(address, terms, context, node_name(node))
    except CertificateError as cause:
        log.error("certificate_unusable", address=address, reason=str(cause))
        return Standing.SILENT
    except RefusedError as refusal:
        # any other refusal is one of a member, and the start that follows says which
        return Standing.STRANGER if str(refusal) == NOT_A_MEMBER else Standing.MEMBER
    except OSError:
        return Standing.SILENT
    return Standing.MEMBER


class _WaitingPages:
    """What probes see meanwhile: alive, and not ready."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self._metrics = Metrics(process=True)
        say_build(self._metrics, "node")

    def refuse(self, error: ServiceError) -> Response:
        return refused(error)

    async def handle(self, request: Request) -> Response:
        plain = [("content-type", "text/plain")]
        match request.raw_path:
            case "/livez":
                return Response(200, plain, b"OK\n")
            case "/readyz" | "/health" | "/ping":
                return Response(503, plain, b"[-]member\nnot ready\n")
            case "/metrics":
                return Response(200, [("content-type", CONTENT_TYPE)], self._metrics.expose())
            case _:
                body = {"error": "not_found", "code": "not_found", "message": "no such page"}
                return Response(
                    404, [("content-type", "application/json")], json.dumps(body).encode()
                )
