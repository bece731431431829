"""The node's gRPC port: proves the caller, then hands bytes on. Thin: nothing is decided here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import grpc.aio

from svc_cluster.base.errors import MalformedError
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.formation import FormationFormatError
from svc_cluster.codec.peer_message import PeerMessageError, decode_envelope
from svc_cluster.link.grpc_link import CHANNEL_OPTIONS
from svc_cluster.link.handshake import HandshakeError, Identity, NotYetError, check_metadata
from svc_cluster.link.refused_callers import RefusedCallers, caller_of
from svc_cluster.link.tls import PeerTls, check_certificate, server_credentials
from svc_cluster.replica.node import ReplicaNode

log = get_logger("rpc")

SERVICE: Final = "svc.cluster.v1.Replica"
OUTGOING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Answers a slow caller may leave waiting; beyond that its stream is ended."""


class RpcServer:
    """Listens on one address for peers and gateways of this cluster."""

    def __init__(
        self, node: ReplicaNode, secret: bytes, address: str, tls: PeerTls | None = None
    ) -> None:
        """Raises RuntimeError for an address that cannot be listened on, CertificateError."""
        self._node = node
        self._secret = secret
        self._refused = RefusedCallers(node.services.clock)
        self._tls = tls
        self._server = grpc.aio.server(options=CHANNEL_OPTIONS)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    SERVICE,
                    {
                        "Session": grpc.stream_stream_rpc_method_handler(self._session),
                        "Peer": grpc.stream_stream_rpc_method_handler(self._peer),
                        "Snapshot": grpc.unary_unary_rpc_method_handler(self._snapshot),
                        "Form": grpc.unary_unary_rpc_method_handler(self._form),
                    },
                ),
            )
        )
        if tls is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, server_credentials(tls))

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace_seconds: float) -> None:
        await self._server.stop(grace_seconds)

    async def _caller(self, context: Any, check: Callable[[Identity], None]) -> Identity:
        """The proven caller; otherwise the call is over before a message is decoded."""
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        identity: Identity | None = None
        try:
            identity = check_metadata(self._secret, self._node.config.cluster_id, metadata)
            if self._tls is not None:
                names = context.auth_context().get("x509_subject_alternative_name", ())
                check_certificate(identity, names)
            check(identity)
        except HandshakeError as refusal:
            self._say_refused(identity, context.peer(), refusal)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(refusal))
            raise
        return identity

    def _say_refused(self, caller: Identity | None, peer: str, refusal: HandshakeError) -> None:
        if isinstance(refusal, NotYetError):
            log.debug("caller_early", peer=peer)
            return
        node = caller.node_id if caller is not None and caller.role == "node" else None
        name = caller_of(peer) if node is None else f"node {node}"
        count = self._refused.refused(name)
        if count is not None:
            log.warning("caller_refused", node=node, peer=peer, reason=str(refusal), refusals=count)

    async def _session(self, requests: AsyncIterator[bytes], context: Any) -> None:
        await self._caller(context, self._node.check_peer)
        await context.send_initial_metadata(())
        outgoing: deque[bytes] = deque()
        wake = asyncio.Event()
        size = 0

        def send(data: bytes) -> None:
            nonlocal size
            size += len(data)
            outgoing.append(data)
            wake.set()

        session = self._node.service.session(send)

        async def write() -> None:
            nonlocal size
            while True:
                while outgoing:
                    data = outgoing.popleft()
                    try:
                        await context.write(data)
                    except Exception as cause:  # of whatever class: the library has many for it
                        log.warning("answers_not_taken", peer=context.peer(), reason=str(cause))
                        context.cancel()
                        return
                    size -= len(data)
                    session.sent(len(data))
                wake.clear()
                await wake.wait()

        writers = Tasks()
        writers.spawn(write(), "answers")
        try:
            async for data in requests:
                session.message(data)
                if size > OUTGOING_BYTES_MAX:
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "answers not taken")
        except MalformedError as fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, fault.message)
        finally:
            session.close()
            await writers.cancel_all()

    async def _peer(self, requests: AsyncIterator[bytes], context: Any) -> None:
        identity = await self._caller(context, self._node.check_peer)
        if identity.role != "node":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only nodes talk Raft")
        await context.send_initial_metadata(())
        try:
            async for data in requests:
                # an incarnation may have been registered since the stream began
                self._node.check_peer(identity)
                self._node.peer_envelope(identity.node_id, decode_envelope(data))
        except (PeerMessageError, HandshakeError) as fault:
            log.warning("peer_stream_ended", peer_node=identity.node_id, reason=str(fault))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))

    async def _snapshot(self, chunk: bytes, context: Any) -> bytes:
        identity = await self._caller(context, self._node.check_peer)
        if identity.role != "node":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only nodes send snapshots")
        return await self._node.host.receiver.chunk(identity.node_id, chunk)

    async def _form(self, report: bytes, context: Any) -> bytes:
        """Open to every node of the cluster, whatever became of its data directory: it learns here
        that it is refused."""
        identity = await self._caller(context, self._node.check_member)
        if identity.role != "node":
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "only nodes form a cluster")
        try:
            answer = self._node.form(identity, report)
        except (FormationFormatError, HandshakeError) as fault:
            self._say_refused(identity, context.peer(), HandshakeError(str(fault)))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
            raise
        formation = self._node.former.formation
        if formation.is_formed:
            reason = formation.why_not(identity.node_id, identity.incarnation)
            if reason is not None:
                self._say_refused(identity, context.peer(), HandshakeError(reason))
        return answer
