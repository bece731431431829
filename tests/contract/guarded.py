"""A server that takes clients' certificates, and what its tests ask of it."""

from __future__ import annotations

import http.client
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import utc_now
from svc_cluster.cli.processes.tls_files import LOOK_SECONDS
from tests.contract.access import EVERYWHERE, ROOT_SECRET
from tests.contract.client import Answer
from tests.contract.client_authority import SECONDS, CertifiedClient, ClientAuthority, Shown
from tests.contract.conftest import Server, running

NUMBERS = itertools.count()
READ = {**EVERYWHERE, "op_groups": {"account": {"read": True}}}


class Guarded:
    """A server under TLS that takes clients' certificates."""

    def __init__(self, server: Server, public_ca: Path, clients: ClientAuthority) -> None:
        self.server = server
        self.public_ca = public_ca
        self.clients = clients

    @contextmanager
    def client(self, protocol: str, shown: Shown | None = None) -> Iterator[CertifiedClient]:
        made = CertifiedClient(self.server.port, self.public_ca, protocol, shown)
        try:
            yield made
        finally:
            made.close()

    def as_root(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Until the gateway knows the root token, which is a moment after the start."""
        end = SystemClock().monotonic() + SECONDS
        # where a certificate is needed, the root's secret needs one with its name, too
        shown = self.clients.issue("root")
        while True:
            with self.client("http/1.1", shown) as client:
                answer = client.ask(method, path, body, ROOT_SECRET, **headers)
            if answer.status not in (401, 503) or SystemClock().monotonic() > end:
                return answer

    def token(self, **members: Any) -> tuple[str, str]:
        """Id and secret of a new one."""
        token_id = f"machine-{next(NUMBERS):04}"
        body = {"id": token_id, "scope": READ, **members}
        answer = self.as_root("POST", "/v1/access-tokens", body)
        assert answer.status == 201, answer
        return token_id, answer.json["access_token"]


@contextmanager
def guarded_by(
    directory: Path, wanted: str, node: dict[str, Any] | None = None
) -> Iterator[Guarded]:
    """`node`: settings of its node besides."""
    clients = ClientAuthority(directory / "clients")
    authority = Authority.create(directory / "ca", utc_now)
    issue(authority, ["localhost"], directory / "public")
    home = directory / "home"
    home.mkdir()
    gateway = {
        "tls_cert": str(directory / "public" / "tls.crt"),
        "tls_key": str(directory / "public" / "tls.key"),
        "tls_client_ca": str(clients.path),
        "tls_client_certificate": wanted,
        "failed_authentications_per_second": None,
    }
    with running(Server(home, 10.0, ROOT_SECRET, node, gateway)) as server:
        yield Guarded(server, directory / "ca" / "ca.pem", clients)


def await_status(guarded: Guarded, shown: Shown, status: int | None) -> None:
    """Until a new connection is answered so; None: until there is none. The gateway looks at its
    files every LOOK_SECONDS."""
    clock = SystemClock()
    end = clock.monotonic() + SECONDS + LOOK_SECONDS
    last: object = "nothing was asked"
    while clock.monotonic() < end:
        try:
            with guarded.client("http/1.1", shown) as client:
                last = client.ask("GET", "/v1/basins").status
        except (OSError, http.client.HTTPException):
            last = None
        if last == status:
            return
    raise AssertionError(f"{last} and not {status}")
