"""Handshakes with strangers who show certificates: what they cost the event loop, whatever is
shown, and that whoever is honest notices nothing of it. On both kinds of event loop."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from svc_cluster.base.tasks import start_task
from svc_cluster.base.tls_handshakes import HANDSHAKE_BYTES_MAX, Handshakes
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.cli.processes.tls_files import PublicCertificate
from tests.contract.client_authority import ClientAuthority
from tests.integration.costly_certificates import slow_certificate, small_certificate
from tests.turn_bound import TURN_BOUND_SECONDS

SECONDS = 60.0
ECHO_SECONDS_MAX = 5.0
"""Until what was sent has come back."""

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


class Certificates:
    """A root, two authorities below each other, and who is below those: with keys of 4,096 bits,
    as they are at their largest in use."""

    def __init__(self, directory: Path) -> None:
        self.key = rsa.generate_private_key(65537, 4096)
        pem, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        secret = self.key.private_bytes(pem, kind, serialization.NoEncryption()).decode()
        names = ["root", "middle", "issuing", "localhost"]
        issuers = ["root", *names[:-1]]
        made = [self._signed(*pair) for pair in zip(names, issuers, strict=True)]
        self.root = directory / "root.pem"
        self.root.write_text(made[0])
        self.leaf = secret + made[3]
        self.issuing = made[2]
        self.chain = directory / "chain.pem"
        self.chain.write_text(self.leaf + made[2] + made[1] + made[0])
        self._directory = directory

    def _signed(self, name: str, issuer: str) -> str:
        def named(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        day = datetime.timedelta(days=1)
        is_ca = name != "localhost"
        signed = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(utc_now() - day)
            .not_valid_after(utc_now() + day)
            .add_extension(x509.BasicConstraints(is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.root)
        context.load_cert_chain(self.chain)
        return context

    def client(self, *others: str, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """`others`: what is shown beside the leaf, the chain if nothing is."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.root)
        path = self.chain
        if others:
            path = self._directory / "shown.pem"
            path.write_text(self.leaf + "".join(others))
        context.load_cert_chain(path)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


class Echo(asyncio.Protocol):
    """Sends back what comes, and says who showed what."""

    def __init__(self) -> None:
        self.transport: Any  # not every loop's is one of asyncio's
        self.shown: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.shown = transport.get_extra_info("peercert")

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


def listening() -> socket.socket:
    sock = socket.create_server(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


async def comes_back(reader: asyncio.StreamReader, sent: bytes) -> bool:
    try:
        async with asyncio.timeout(ECHO_SECONDS_MAX):
            return await reader.readexactly(len(sent)) == sent
    except TimeoutError:
        return False


def call(context: ssl.SSLContext, port: int) -> None:
    """A caller in a thread, until it is refused."""
    with (
        socket.create_connection(("127.0.0.1", port)) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as connection,
    ):
        connection.settimeout(SECONDS)
        connection.recv(1)


def caller(context: ssl.SSLContext, port: int) -> threading.Thread:
    def refused() -> None:
        with contextlib.suppress(OSError):
            call(context, port)

    thread = threading.Thread(target=refused, daemon=True)
    thread.start()
    return thread


async def refusal(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[str, float, float]:
    """Why it is refused, and the processor's seconds of the loop's thread and of all others."""
    loop = asyncio.get_running_loop()
    handshakes = Handshakes(loop)
    with listening() as sock:
        thread = caller(client, sock.getsockname()[1])
        accepted, _ = await loop.sock_accept(sock)
        here, everywhere = time.thread_time(), time.process_time()
        try:
            async with asyncio.timeout(SECONDS):
                with accepted:
                    await handshakes.take(accepted, server)
        except OSError as cause:
            mine = time.thread_time() - here
            others = time.process_time() - everywhere - mine
            handshakes.close()
            await asyncio.to_thread(thread.join)
            return str(cause), mine, others
    raise AssertionError("nobody showed anything good")


def test_slow_certificates_are_not_the_loops(run: Run, certificates: Certificates) -> None:
    """Three certificates of 588 bytes that take half a second of a processor: the loop's thread has
    none of it. The caller is refused for what it showed."""
    client = certificates.client(*[slow_certificate()] * 3)
    why, mine, others = run(refusal(certificates.server(), client))
    assert "CERTIFICATE_VERIFY_FAILED" in why
    assert others > 5 * TURN_BOUND_SECONDS, "they are not slow at all"
    assert mine < TURN_BOUND_SECONDS


def test_hundreds_of_certificates_are_not_looked_at(run: Run, certificates: Certificates) -> None:
    """They are more than an honest caller sends, and end where that has come."""
    client = certificates.client(*[small_certificate()] * 400)
    why, mine, _ = run(refusal(certificates.server(), client))
    assert f"more than {HANDSHAKE_BYTES_MAX} bytes" in why
    assert mine < TURN_BOUND_SECONDS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_chain_of_four_with_large_keys_gets_in(
    run: Run, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    """Both ways, of what came right behind the handshake and of as much as makes a loop pause; and
    both ends hear of the end."""

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        handshakes = Handshakes(loop)
        server = certificates.server()
        with listening() as sock:

            async def take() -> Echo:
                accepted, _ = await loop.sock_accept(sock)
                made = await handshakes.take(accepted, server)
                echo = Echo()
                await loop.connect_accepted_socket(lambda: echo, accepted, ssl=made)
                return echo

            taking = start_task(take(), "take a caller")
            reader, writer = await asyncio.open_connection(
                *sock.getsockname(),
                ssl=certificates.client(version=version),
                server_hostname="localhost",
            )
            try:
                for sent in (b"at once", bytes(1_000_000), b"again"):
                    writer.write(sent)
                    assert await comes_back(reader, sent), f"{len(sent)} bytes were not read"
            except AssertionError:
                writer.transport.abort()
                (await taking).transport.abort()
                raise
            echo = await taking
            assert echo.shown["subject"] == ((("commonName", "localhost"),),)
            found = writer.get_extra_info("ssl_object")
            assert found.version() == version.name.replace("v1_", "v1.")
            echo.transport.close()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        handshakes.close()

    async def in_time() -> None:
        async with asyncio.timeout(SECONDS):
            await talk()

    run(in_time())


def test_an_authority_without_its_root_is_trusted_and_no_other_below_that(
    run: Run, certificates: Certificates, tmp_path: Path
) -> None:
    """A file with the issuing CA alone lets in whom that has signed; one with the CA of clients of
    others lets in nobody of these."""
    key = tmp_path / "key.pem"
    key.write_text(certificates.leaf)
    issuing = tmp_path / "issuing.pem"
    issuing.write_text(certificates.issuing)

    async def taken(client_ca: Path) -> bool:
        context = PublicCertificate(certificates.chain, key, client_ca).context
        loop = asyncio.get_running_loop()
        handshakes = Handshakes(loop)
        with listening() as sock:
            thread = caller(certificates.client(), sock.getsockname()[1])
            accepted, _ = await loop.sock_accept(sock)
            try:
                async with asyncio.timeout(SECONDS):
                    with accepted:
                        await handshakes.take(accepted, context)
            except ssl.SSLError:
                return False
            finally:
                handshakes.close()
                await asyncio.to_thread(thread.join)
        return True

    assert run(taken(issuing))
    assert not run(taken(ClientAuthority(tmp_path / "others").path))


def test_a_caller_that_goes_or_says_nothing_is_an_error(
    run: Run, certificates: Certificates
) -> None:
    """No connection comes of it, and nothing waits for ever."""

    async def called(words: bytes, ends: bool) -> BaseException:
        loop = asyncio.get_running_loop()
        handshakes = Handshakes(loop)
        near, far = socket.socketpair()
        near.setblocking(False)
        with near, far:
            far.sendall(words)
            if ends:
                far.shutdown(socket.SHUT_WR)
            try:
                async with asyncio.timeout(0.2):
                    await handshakes.take(near, certificates.server())
            except OSError as cause:
                return cause
            finally:
                handshakes.close()
        raise AssertionError("nobody was there")

    assert isinstance(run(called(b"", True)), ConnectionResetError)
    assert isinstance(run(called(b"GET / HTTP/1.1\r\n\r\n", False)), ssl.SSLError)
    assert isinstance(run(called(b"\x16\x03\x01", False)), TimeoutError)
