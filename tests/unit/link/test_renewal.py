"""Certificates and CAs that are renewed under links, over real TLS on both event loops.

Rule: docs/security.md, "Client certificates".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from svc_cluster.base.tls_trust import trusted_by
from svc_cluster.link.connector import TRUST_SECONDS
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.tls_context import DISTRUSTED, CallerTls, Renewal, acceptor_context
from svc_cluster.link.wire import FAREWELL_SECONDS
from tests.unit.link.wires import Called, Served, listening_securely, secure, two_authorities


def test_renewed_files_count_from_the_next_connection_on(
    run: Callable[..., None], tmp_path: Path
) -> None:
    """A new CA is put beside the old one, with a certificate of the new one: who has either gets
    in, the connection that stands goes on, unusable files change nothing."""
    first, second = two_authorities(tmp_path)
    own, caller = first.tls("node2", node=2), first.tls("node1", node=1)
    renewed, later = second.tls("node2", node=2), second.tls("node1", node=1)
    both = own.authority.read_bytes() + renewed.authority.read_bytes()

    async def body() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        renewal = Renewal(own, acceptor_context)
        async with listening_securely(own) as pair:
            called = Called()
            connector = secure(pair, called, caller, "node", 1)
            connector.start()
            await called.ups.get()
            served = await pair.served.get()
            assert renewal.changed() is None
            own.key.write_bytes(b"not a key")
            assert renewal.changed() is None
            own.certificate.write_bytes(renewed.certificate.read_bytes())
            own.key.write_bytes(renewed.key.read_bytes())
            own.authority.write_bytes(both)
            context = renewal.changed()
            assert context is not None and renewal.changed() is None
            pair.acceptor.renew(context)
            other = Called()
            fresh = secure(pair, other, later, "node", 1)
            fresh.start()
            await other.ups.get()
            connector.send(FrameKind.CALL, 1, b"still here")
            assert await served.got.get() == (FrameKind.CALL, b"still here")
            assert called.downs == 0
            await connector.close()
            await fresh.close()

    run(body())


def test_the_acceptor_ends_what_stands_on_a_ca_that_was_taken_out(
    run: Callable[..., None], tmp_path: Path
) -> None:
    """A caller of that CA is out and stays out. One of the CA that is left, on a connection of the
    time when both were trusted, is called off and comes back by itself."""
    first, second = two_authorities(tmp_path)
    own, good = second.tls("node2", node=2), second.tls("node3", node=3)
    caller = first.tls("node1", node=1)
    only = own.authority.read_bytes()
    for each in (own, good, caller):
        each.authority.write_bytes(only + first.pem)

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        renewal = Renewal(own, acceptor_context)
        async with listening_securely(own) as pair:
            gone, staying = Called(), Called()
            links = [
                secure(pair, gone, caller, "node", 1),
                secure(pair, staying, good, "node", 3),
            ]
            served: dict[int, Served] = {}
            for link, called in zip(links, (gone, staying), strict=True):
                link.start()
                await called.ups.get()
                made = await pair.served.get()
                served[made.speaker.identity.node_id] = made
            refusals = pair.acceptor.refusals
            own.authority.write_bytes(only)
            context = renewal.changed()
            assert context is not None
            pair.acceptor.renew(context)
            assert not served[1].wire.is_open and not served[3].wire.is_open, "at once"
            await staying.ups.get()
            assert (await pair.served.get()).speaker.identity.node_id == 3
            assert (staying.downs, gone.downs) == (1, 1)
            while pair.acceptor.refusals == refusals:  # it tries again, under RUN_SECONDS
                await asyncio.sleep(0.01)
            assert gone.ups.empty() and not links[0].is_up
            for link in links:
                await link.close()

    run(body())


def test_the_caller_ends_what_stands_on_a_ca_that_was_taken_out(
    run: Callable[..., None], tmp_path: Path
) -> None:
    """Its own file says so, though the one that it has called has noticed nothing; within
    TRUST_SECONDS and FAREWELL_SECONDS. A file that cannot be used ends nothing."""
    first, second = two_authorities(tmp_path)
    own, caller = first.tls("node2", node=2), second.tls("node1", node=1)
    own.authority.write_bytes(first.pem + second.pem)
    caller.authority.write_bytes(first.pem + second.pem)

    async def body() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        async with listening_securely(own) as pair:
            called = Called()
            connector = secure(pair, called, caller, "node", 1)
            connector.start()
            await called.ups.get()
            served = await pair.served.get()
            caller.authority.write_bytes(b"no certificate")
            await asyncio.sleep(2 * TRUST_SECONDS)
            assert connector.is_up and called.downs == 0
            caller.authority.write_bytes(second.pem)
            start = loop.time()
            await served.down.wait()
            assert loop.time() - start < TRUST_SECONDS + FAREWELL_SECONDS
            assert served.wire.talk.end == f"the other side ended it: {DISTRUSTED}"
            while connector._last_reason == DISTRUSTED or not connector._last_reason:
                await asyncio.sleep(0.01)
            assert "CERTIFICATE_VERIFY_FAILED" in connector._last_reason
            assert called.ups.empty() and called.downs == 1
            await connector.close()

    run(body())


def test_files_that_break_during_the_first_handshake_end_nothing(tmp_path: Path) -> None:
    """The first look at what is trusted comes behind the handshake: what its context was made from
    counts, until files that can be used say otherwise."""
    first, second = two_authorities(tmp_path)
    caller = first.tls("node1", node=1)
    callers = CallerTls(caller)
    authorities = trusted_by(callers.context())
    assert authorities
    caller.authority.write_bytes(b"no certificate")
    assert callers.trusts(authorities)
    caller.authority.write_bytes(second.pem)
    assert not callers.trusts(authorities)
