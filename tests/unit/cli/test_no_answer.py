"""Why a node's administration was not reached, told by the words of the library as they are.

Each is brought about at a real port: what gRPC says of it may change with its version.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from svc_cluster.administration.credentials import listener_credentials
from svc_cluster.administration.operations import OPERATIONS
from svc_cluster.cli.admin import admin_client
from svc_cluster.cli.admin.admin_client import AdminError, Target, connected
from svc_cluster.cli.admin.no_answer import NoAnswer, look
from tests.unit.link.wires import two_authorities


async def told(target: Target) -> str:
    """What the person at the terminal reads."""
    with pytest.raises(AdminError) as refusal:
        async with connected(target) as client:
            await client.status()
    return str(refusal.value)


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[int]:
    """A port at which something else answers."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def test_what_is_wrong_with_an_address(tmp_path: Path) -> None:
    """Nothing listens, nobody knows the host, another service answers, in clear or under TLS."""
    tls = two_authorities(tmp_path)[0].tls("own", node=1)

    async def main() -> None:
        with socket.socket() as unheard:
            unheard.bind(("127.0.0.1", 0))
            free = unheard.getsockname()[1]
            text = await told(Target(f"127.0.0.1:{free}"))
            assert text.startswith(f"127.0.0.1:{free} refuses connections (")
            assert text.endswith("is it started, and is that its `admin_rpc_address`?")
        text = await told(Target("nobody.invalid:1"))
        assert "nobody.invalid:1 cannot be found (" in text and "check the name" in text
        async with speaking(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            text = await told(Target(f"127.0.0.1:{port}"))
            assert "is another service (" in text and "`admin_rpc_address`" in text
            text = await told(Target(f"127.0.0.1:{port}", 1, tls))
            assert "does not speak TLS (" in text and "leave out --tls-cert" in text

    asyncio.run(main())


def test_what_is_wrong_with_certificates(tmp_path: Path) -> None:
    """None shown, none trusted, another node's, no id named, not taken by the node."""
    first, second = two_authorities(tmp_path)
    own, good, bad = first.tls("own", node=2), first.tls("good", node=1), second.tls("bad", node=1)
    stranger = dataclasses.replace(bad, authority=own.authority)
    expected: tuple[tuple[Callable[[str], Target], str, str], ...] = (
        (Target, "hangs up", "it asks for TLS"),
        (lambda at: Target(at, 2, bad), "shows a certificate that is not trusted", "--tls-ca"),
        (lambda at: Target(at, 3, good), "is not that node", "check --node"),
        (lambda at: Target(at, None, good), "is not known by that address", "name it by --node"),
        (lambda at: Target(at, 2, stranger), "hangs up", "does not take this certificate"),
    )

    async def main() -> None:
        server = grpc.aio.server()
        port = server.add_secure_port("127.0.0.1:0", listener_credentials(own))
        await server.start()
        for target, what, advice in expected:
            text = await told(target(f"127.0.0.1:{port}"))
            assert f"127.0.0.1:{port} {what} (" in text and advice in text, text
        await server.stop(0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("details", "what"),
    [
        ("Deadline Exceeded", "does not answer in time"),
        ("ipv4:10.0.0.1:1: connection attempt timed out before", "does not answer in time"),
        ("certificate verify failed: CERTIFICATE_EXPIRED", "shows a certificate that has expired"),
        ("something new", "does not answer"),
    ],
)
def test_what_takes_too_long_to_bring_about(details: str, what: str) -> None:
    """By the words alone; unknown ones are told as they are, with all that may be checked."""
    found = look(details, by_tls=True, by_id=True)
    assert isinstance(found, NoAnswer)
    assert (found.what, bool(found.advice)) == (what, True)


def test_a_silent_port_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something accepts and says nothing: the deadline is the library's own, not a node's."""
    monkeypatch.setattr(admin_client, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(
        admin_client,
        "OPERATIONS",
        {path: dataclasses.replace(row, seconds_max=0.0) for path, row in OPERATIONS.items()},
    )
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        text = asyncio.run(told(Target(f"127.0.0.1:{silent.getsockname()[1]}")))
    assert " does not answer in time (Deadline Exceeded): " in text
