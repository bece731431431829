"""Both directions of one exchange at once over HTTP/1.1, through raw sockets.

Rules: contract 8.3.
"""

from __future__ import annotations

import asyncio
import socket

from svc_cluster.http.connection import TimeLimits
from svc_cluster.http.server import Server
from tests.contract.scripted_app import DEADLINE, ScriptedApp, run_with_server

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_exchange(server: Server, path: str, *headers: str) -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    lines = [f"POST {path} HTTP/1.1", "host: x", "transfer-encoding: chunked", *headers]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    return reader, writer


async def until(reader: asyncio.StreamReader, mark: bytes) -> bytes:
    async with asyncio.timeout(DEADLINE):
        return await reader.readuntil(mark)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_an_answer_is_written_while_its_request_is_still_being_read() -> None:
    """The head comes before a byte of the body is sent; then piece by piece, each echoed before
    the next is sent; the client's end ends the answer; the connection carries another request."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/echo")
        head = await until(reader, b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"transfer-encoding: chunked\r\n" in head
        assert b"connection: close" not in head
        for number in range(100):
            piece = b"piece %d" % number * 50
            writer.write(chunk(piece))
            assert await until(reader, piece + b"\r\n") == chunk(piece)
        writer.write(b"0\r\n\r\n")
        assert await until(reader, b"0\r\n\r\n") == chunk(b"end") + b"0\r\n\r\n"
        assert await app.next_end() == "done"
        writer.write(b"GET /again HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await until(reader, b"GET /again")).startswith(b"HTTP/1.1 200 ")
        writer.close()

    run_with_server(main)


def test_megabytes_cross_in_both_directions() -> None:
    """Neither side waits for the other to finish: 20 MB in, 20 MB out, through small buffers."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/echo")
        await until(reader, b"\r\n\r\n")
        piece = b"p" * 200_000

        async def send() -> None:
            for _ in range(100):
                writer.write(chunk(piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")

        sending = asyncio.get_running_loop().create_task(send())
        received = 0
        async with asyncio.timeout(DEADLINE):
            while (size := int(await reader.readline(), 16)) > 0:
                received += len((await reader.readexactly(size + 2))[:-2])
        await sending
        assert received == 100 * len(piece) + len(b"end")
        writer.close()

    run_with_server(main)


def test_an_answer_that_reads_the_body_invites_it_first() -> None:
    """`Expect: 100-continue`: the invitation comes before the head, never in the middle of the
    answer."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/echo", "expect: 100-continue")
        assert await until(reader, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await until(reader, b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(chunk(b"hello") + b"0\r\n\r\n")
        assert await until(reader, b"0\r\n\r\n") == chunk(b"hello") + chunk(b"end") + b"0\r\n\r\n"
        writer.close()

    run_with_server(main)


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """The whole answer comes although the body goes on; the connection then ends."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/refuse")
        for _ in range(20):
            writer.write(chunk(b"x" * 10_000))
        async with asyncio.timeout(DEADLINE):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"connection: close\r\n" in answer
        assert answer.endswith(b"}")
        writer.close()

    run_with_server(main)


def test_an_answer_may_end_before_its_request() -> None:
    """It is complete, and what the client still sends is not taken for another request."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/first")
        writer.write(chunk(b"one"))
        answer = await until(reader, b"\r\n0\r\n\r\n")
        assert answer.endswith(b"\r\n\r\n3\r\none\r\n0\r\n\r\n")
        writer.write(chunk(b"GET /again HTTP/1.1\r\nhost: x\r\n\r\n"))
        async with asyncio.timeout(DEADLINE):
            assert await reader.read() == b""
        assert len(app.requests) == 1
        writer.close()

    run_with_server(main)


def test_a_client_that_goes_ends_the_answer() -> None:
    """By a reset in the middle of a body, and of an answer that would never end."""

    async def main(app: ScriptedApp, server: Server) -> None:
        for path in ("/echo", "/endless", "/wait"):
            reader, writer = await open_exchange(server, path)
            if path == "/wait":
                while len(app.requests) < 3:
                    await asyncio.sleep(0.01)
            else:
                await until(reader, b"\r\n\r\n")
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.close()
            assert await app.next_end() in ("cancelled", "closed")

    run_with_server(main)


def test_a_body_that_nobody_reads_holds_its_sender_back() -> None:
    """The client can send a bounded amount, and the rest once it is wanted."""

    async def main(app: ScriptedApp, server: Server) -> None:
        reader, writer = await open_exchange(server, "/stall")
        total = 40_000_000
        body = b"x" * total
        writer.write(chunk(body) + b"0\r\n\r\n")
        transport = writer.transport
        left = -1
        while left != transport.get_write_buffer_size() or left == total:
            left = transport.get_write_buffer_size()
            await asyncio.sleep(0.3)
        assert left > 0
        app.go.set()
        assert b"40000000" in await until(reader, b"40000000")
        writer.close()

    run_with_server(main)


def test_a_client_that_reads_nothing_is_cut_off() -> None:
    """What waits for it is bounded, and after the write deadline the connection ends."""

    async def main(app: ScriptedApp, server: Server) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", server.port))
        await loop.sock_sendall(sock, b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
        assert await app.next_end() in ("cancelled", "closed")
        # The kernel's own buffers take some megabytes at most.
        assert app.produced_bytes < 30_000_000
        sock.close()

    run_with_server(main, limits=TimeLimits(write=1.0))
