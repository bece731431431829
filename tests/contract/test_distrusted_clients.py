"""What becomes of connections whose client's CA is taken out of `tls_client_ca`.

Rule: docs/security.md, "Client certificates". Over TLS, in HTTP/1.1 and HTTP/2, through the whole
gateway and its watch on the file.
"""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hyperframe.frame import DataFrame, Frame, GoAwayFrame, HeadersFrame

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.processes.tls_files import LOOK_SECONDS
from svc_cluster.http.server import DISTRUST_SECONDS
from tests.contract.access import EVERYWHERE
from tests.contract.client_authority import CertifiedClient, ClientAuthority, Shown
from tests.contract.guarded import NUMBERS, Guarded, await_status, guarded_by
from tests.contract.h2_client import H2Session
from tests.log_lines import json_lines

LATE_SECONDS = 4.0
"""For a machine that does other things, too."""
WAIT = f"/v1/streams/s/records?seq_num=0&wait={int(LOOK_SECONDS) + 2}"
GOAWAY = "GoAwayFrame, without an error"
ANSWERED = ["HeadersFrame ['END_HEADERS']", "DataFrame ['END_STREAM']"]
FOLLOW = "/v1/streams/s/records?seq_num=0"


def test_connections_end_when_their_ca_is_taken_out(tmp_path: Path) -> None:
    """Another CA beside it ends nobody. Without it: who asks for nothing is out with the gateway's
    next look at the file; what is being answered is answered, as the connection's last; what would
    go on for ever is cut off DISTRUST_SECONDS later. Who showed no certificate does not notice."""
    with guarded_by(tmp_path, "optional") as guarded, ExitStack() as stack:
        basin, token_id, secret = _stream(guarded)
        old, new = guarded.clients, ClientAuthority(tmp_path / "next", "the next year")

        def opened(protocol: str, shown: Shown | None) -> CertifiedClient:
            return stack.enter_context(guarded.client(protocol, shown))

        shown = old.issue(token_id)
        idle = {protocol: opened(protocol, shown) for protocol in ("http/1.1", "h2")}
        bare = opened("http/1.1", None)

        def served(client: CertifiedClient, secret: str | None = None) -> int:
            return client.ask("GET", WAIT.partition("&")[0], None, secret, svc_basin=basin).status

        def all_served() -> list[int]:
            return [served(bare, secret), *(served(client) for client in idle.values())]

        before = all_served()
        guarded.clients.path.write_bytes(old.pem + new.pem)
        await_status(guarded, new.issue(token_id), 403)
        assert all_served() == before == [200, 200, 200]

        following = [_following(opened(p, shown), basin) for p in ("http/1.1", "h2")]
        waiting = opened("http/1.1", shown)
        waiting.plain.request("GET", WAIT, None, {"svc-basin": basin})
        both = opened("h2", shown).session
        assert both is not None
        both.start("GET", WAIT, {"svc-basin": basin}, end=True)
        clock = SystemClock()
        start = clock.monotonic()
        guarded.clients.path.write_bytes(new.pem)

        _until_closed(idle["http/1.1"])
        assert _last_frames(idle["h2"].session) == [GOAWAY]
        looked = clock.monotonic()
        assert looked - start < LOOK_SECONDS + LATE_SECONDS
        last = waiting.plain.getresponse()
        assert (last.status, last.headers["connection"]) == (200, "close")
        assert _last_frames(both) == [GOAWAY, *ANSWERED]
        for each in following:
            said = _read_to_end(each, looked + DISTRUST_SECONDS + LATE_SECONDS)
            took = clock.monotonic() - looked
            assert DISTRUST_SECONDS / 2 < took < DISTRUST_SECONDS + LATE_SECONDS, said
        assert served(bare, secret) == 200
        log = json_lines(guarded.server.log)
        gone = [line for line in log if line.get("event") == "client_authorities_removed"]
        assert [(line["count"], line["connections"]) for line in gone] == [(1, 6)]


def _stream(guarded: Guarded) -> tuple[str, str, str]:
    """Its basin, and id and secret of a token that may read it."""
    basin = f"distrusted-{next(NUMBERS):04}"
    assert guarded.as_root("POST", "/v1/basins", {"basin": basin}).status == 201
    made = guarded.as_root("POST", "/v1/streams", {"stream": "s"}, svc_basin=basin)
    assert made.status == 201
    return basin, *guarded.token(scope={**EVERYWHERE, "ops": ["read"]})


def _following(client: CertifiedClient, basin: str) -> ssl.SSLSocket:
    """The connection of a stream of events that has begun."""
    headers = {"accept": "text/event-stream", "svc-basin": basin}
    answer: Any
    sock = client.plain.sock
    assert isinstance(sock, ssl.SSLSocket)
    if client.session is None:
        client.plain.request("GET", FOLLOW, None, headers)
        answer = client.plain.getresponse()
    else:
        answer = client.session.request("GET", FOLLOW, headers)
    assert answer.status == 200
    return sock


def _read_to_end(sock: ssl.SSLSocket, late: float) -> bytes:
    """Of a connection that is cut off, or has pings beyond this time of the monotonic clock."""
    data, clock = b"", SystemClock()
    try:
        while clock.monotonic() < late and (piece := sock.recv(65536)):
            data += piece
    except OSError:
        pass
    return data


def _until_closed(client: CertifiedClient) -> None:
    sock = client.plain.sock
    assert isinstance(sock, ssl.SSLSocket)
    assert sock.recv(1) == b"", "nothing was asked"


def _last_frames(session: H2Session | None) -> list[str]:
    """By name, until the connection ends; of settings and windows nothing. The library takes no
    answers behind a GOAWAY, which servers may send."""
    assert session is not None
    data = b""
    while piece := session.sock.recv(65536):
        data += piece
    found = []
    while data:
        frame, size = Frame.parse_frame_header(memoryview(data[:9]))
        frame.parse_body(memoryview(data[9 : 9 + size]))
        data = data[9 + size :]
        if isinstance(frame, GoAwayFrame):
            assert frame.error_code == 0
            found.append(GOAWAY)
        elif isinstance(frame, HeadersFrame | DataFrame):
            found.append(f"{type(frame).__name__} {sorted(frame.flags)}")
    return found
