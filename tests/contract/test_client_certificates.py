"""Client certificates: whom they stand for, beside what, until when, and which are refused.

Rules: contract 12.13 and 12.14. Over TLS, in HTTP/1.1 and HTTP/2.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.processes.tls_files import LOOK_SECONDS
from tests.contract.access import EVERYWHERE, ROOT_SECRET
from tests.contract.client import Answer
from tests.contract.client_authority import SECONDS, SERVER, ClientAuthority, Shown
from tests.contract.conftest import Server
from tests.contract.guarded import NUMBERS, READ, Guarded, await_status, guarded_by
from tests.log_lines import json_lines


@pytest.fixture(scope="module")
def optional(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_by(tmp_path_factory.mktemp("optional"), "optional") as made:
        yield made


@pytest.fixture(scope="module")
def required(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_by(tmp_path_factory.mktemp("required"), "required") as made:
        yield made


@pytest.fixture(params=["http/1.1", "h2"])
def protocol(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def is_refused(answer: Answer, why: str) -> bool:
    said = answer.json
    return (answer.status, said["code"]) == (401, "authn") and why in said["message"]


def test_a_certificate_acts_with_its_tokens_scope(optional: Guarded, protocol: str) -> None:
    """What the token may do is done, what it may not do is 403; no secret is sent."""
    token_id, _ = optional.token()
    with optional.client(protocol, optional.clients.issue(token_id)) as client:
        assert client.ask("GET", "/v1/basins").status == 200
        refused = client.ask("POST", "/v1/basins", {"basin": "not-with-this"})
        assert (refused.status, refused.json["code"]) == (403, "permission_denied")
        # each request is looked at by itself
        assert client.ask("GET", "/v1/basins").status == 200


FOREIGN = (
    {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "cross-site"},
)


@pytest.mark.parametrize("page", FOREIGN, ids=str)
def test_a_browser_shows_nothing_for_a_page_of_another_origin(
    optional: Guarded, protocol: str, page: dict[str, str]
) -> None:
    """It shows its user's certificate for whatever page asks, and the page could read and write
    all that the user may: what it sends without a token is 401 and does nothing. With the token's
    secret it is served, and so is a page of the gateway's own, and who is no browser."""
    basin = f"no-page-{next(NUMBERS)}"
    token_id, secret = optional.token(
        scope={**EVERYWHERE, "op_groups": {"account": {"read": True, "write": True}}}
    )
    with optional.client(protocol, optional.clients.issue(token_id)) as client:
        read = client.ask("GET", "/v1/basins", **page)
        assert is_refused(read, "a page of another origin")
        written = client.ask("POST", "/v1/basins", {"basin": basin}, **page)
        assert is_refused(written, "a page of another origin")
        listed = client.ask("GET", f"/v1/basins?prefix={basin}")
        assert (listed.status, listed.json["basins"]) == (200, [])
        assert client.ask("GET", "/v1/basins", None, secret, **page).status == 200
        own = {"origin": f"https://localhost:{optional.server.port}"}
        for said in (own, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}):
            assert client.ask("GET", "/v1/basins", **said).status == 200, said


def test_the_certificate_of_a_ca_stands_for_no_token(optional: Guarded) -> None:
    """Even where there is a token with its name."""
    made = optional.as_root("POST", "/v1/access-tokens", {"id": "CA of clients", "scope": READ})
    assert made.status == 201
    with optional.client("http/1.1", optional.clients.itself()) as client:
        assert is_refused(client.ask("GET", "/v1/basins"), "one of a CA")


def test_a_certificate_dies_with_its_token(optional: Guarded, protocol: str) -> None:
    """On a connection that is open, with the next request after the revocation; a token that gets
    the id later brings it back."""
    token_id, _ = optional.token()
    shown = optional.clients.issue(token_id)
    with optional.client(protocol, shown) as client:
        assert client.ask("GET", "/v1/basins").status == 200
        assert optional.as_root("DELETE", f"/v1/access-tokens/{token_id}").status == 204
        assert is_refused(client.ask("GET", "/v1/basins"), "names an access token that is unknown")
        again = {"id": token_id, "scope": READ}
        assert optional.as_root("POST", "/v1/access-tokens", again).status == 201
        assert client.ask("GET", "/v1/basins").status == 200


def test_a_stream_of_events_ends_with_the_token(optional: Guarded) -> None:
    """What a certificate has opened ends within seconds, as with the token's secret."""
    basin = f"certified-{next(NUMBERS):04}"
    assert optional.as_root("POST", "/v1/basins", {"basin": basin}).status == 201
    made = optional.as_root("POST", "/v1/streams", {"stream": "s"}, svc_basin=basin)
    assert made.status == 201
    token_id, _ = optional.token(scope={**EVERYWHERE, "ops": ["read"]})
    with optional.client("http/1.1", optional.clients.issue(token_id)) as client:
        headers = {"accept": "text/event-stream", "svc-basin": basin}
        client.plain.request("GET", "/v1/streams/s/records?seq_num=0", None, headers)
        answer = client.plain.getresponse()
        assert answer.status == 200
        assert optional.as_root("DELETE", f"/v1/access-tokens/{token_id}").status == 204
        said = answer.read().decode()
    assert "authn" in said and "revoked" in said


def test_a_token_that_is_over_is_told(optional: Guarded, protocol: str) -> None:
    """As with its secret, whoever shows its certificate learns that its time is over."""
    clock = SystemClock()
    over = _rfc3339(clock.wall_ms() + 1_500)
    token_id, _ = optional.token(expires_at=over)
    with optional.client(protocol, optional.clients.issue(token_id)) as client:
        end = clock.monotonic() + SECONDS
        while (answer := client.ask("GET", "/v1/basins")).status == 200:
            assert clock.monotonic() < end
        assert is_refused(answer, "has expired") or is_refused(answer, "unknown or revoked")


def _rfc3339(wall_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat()


def test_a_certificate_that_ends_on_an_open_connection(optional: Guarded, protocol: str) -> None:
    """The handshake was good, the connection stays, and what comes after the end is refused."""
    token_id, _ = optional.token()
    clock = SystemClock()
    with optional.client(protocol, optional.clients.issue(token_id, seconds=3)) as client:
        assert client.ask("GET", "/v1/basins").status == 200
        end = clock.monotonic() + SECONDS
        while (answer := client.ask("GET", "/v1/basins")).status == 200:
            assert clock.monotonic() < end
        assert is_refused(answer, "the client certificate has expired")


def test_secret_and_certificate_have_to_agree(optional: Guarded, protocol: str) -> None:
    """The same token's: let in. Another's: refused, be it one that may do more; and so are a
    ticket of another token and a secret that is none."""
    (token_id, secret), (_, other) = optional.token(), optional.token()
    ticket = f"/v1/streams/s/records?seq_num=0&ticket={_ticket(optional, other)}"
    with optional.client(protocol, optional.clients.issue(token_id)) as client:
        assert client.ask("GET", "/v1/basins", None, secret).status == 200
        for wrong in (other, ROOT_SECRET):
            answer = client.ask("GET", "/v1/basins", None, wrong)
            assert is_refused(answer, "names another access token")
        answer = client.ask("GET", "/v1/basins", None, "svct_none")
        assert is_refused(answer, "unknown or revoked")
        answer = client.ask("GET", ticket, svc_basin="certified-0000")
        assert is_refused(answer, "names another access token")
        assert client.ask("GET", "/v1/basins").status == 200


def _ticket(guarded: Guarded, secret: str) -> str:
    wanted = {"basin": "certified-0000", "streams": {"prefix": ""}}
    with guarded.client("http/1.1") as client:
        answer = client.ask("POST", "/v1/read-tickets", wanted, secret)
    if answer.status == 403:  # a token without `read`: any ticket of the root's does
        answer = guarded.as_root("POST", "/v1/read-tickets", wanted)
    assert answer.status == 201, answer
    found: str = answer.json["read_ticket"]
    return found


def test_a_ticket_ends_with_the_certificate_that_asked_for_it(optional: Guarded) -> None:
    """It is no way to read for longer than the certificate holds."""
    token_id, _ = optional.token(scope={**EVERYWHERE, "ops": ["read"]})
    wanted = {"basin": "certified-0000", "streams": {"prefix": ""}}
    shown = optional.clients.issue(token_id, seconds=600)
    before = SystemClock().wall_ms()
    with optional.client("http/1.1", shown) as client:
        answer = client.ask("POST", "/v1/read-tickets", wanted)
    assert answer.status == 201, answer
    assert answer.json["expires_at"] <= _rfc3339(before + 601_000)


def test_without_a_certificate_a_secret_does_where_it_is_optional(
    optional: Guarded, protocol: str
) -> None:
    """And nothing at all does not."""
    _, secret = optional.token()
    with optional.client(protocol) as client:
        assert client.ask("GET", "/v1/basins", None, secret).status == 200
        assert is_refused(client.ask("GET", "/v1/basins"), "send an access token")


def test_where_it_is_required_no_secret_does(required: Guarded, protocol: str) -> None:
    """Not even the root's, which needs a certificate beside it that names it; probes, metrics and
    preflights are answered, because who sends them has none."""
    token_id, secret = required.token()
    with required.client(protocol) as client:
        for each in (secret, ROOT_SECRET):
            answer = client.ask("GET", "/v1/basins", None, each)
            assert is_refused(answer, "show the client certificate of the access token, too")
        assert is_refused(client.ask("GET", "/v1/basins"), "show a client certificate")
        free = [client.ask("GET", path).status for path in ("/livez", "/readyz", "/metrics")]
        assert free == [200, 200, 200]
        page = {"origin": "https://page.example", "access_control_request_method": "GET"}
        assert client.ask("OPTIONS", "/v1/basins", **page).status == 204
    with required.client(protocol, required.clients.issue(token_id)) as client:
        assert client.ask("GET", "/v1/basins").status == 200
        assert client.ask("GET", "/v1/basins", None, secret).status == 200
    with required.client(protocol, required.clients.issue("root")) as client:
        assert client.ask("GET", "/v1/basins", None, ROOT_SECRET).status == 200
        assert is_refused(client.ask("GET", "/v1/basins"), "no client certificate stands for")


def test_certificates_that_are_not_good_get_no_answer(
    optional: Guarded, required: Guarded, protocol: str, tmp_path: Path
) -> None:
    """Of another CA, signed by itself, expired, not for clients, the server's own: the handshake
    ends, where they are optional too. Each names a token that there is."""
    for guarded in (optional, required):
        token_id, _ = guarded.token()
        # its name is that of the right CA, its key is not
        others = ClientAuthority(tmp_path / guarded.server.directory.parent.name)
        wrong = {
            "of another CA": others.issue(token_id),
            "signed by itself": guarded.clients.issue(token_id, signed_by_itself=True),
            "expired": guarded.clients.issue(token_id, seconds=-60),
            "not for clients": guarded.clients.issue(token_id, usage=SERVER),
        }
        for what, shown in wrong.items():
            with pytest.raises((OSError, http.client.HTTPException)):
                _status(guarded, protocol, shown, what)


def _status(guarded: Guarded, protocol: str, shown: Shown, what: str) -> str:
    with guarded.client(protocol, shown) as client:
        return f"{what}: {client.ask('GET', '/v1/basins').status}"


def test_certificates_that_name_no_token_are_told_why(optional: Guarded, protocol: str) -> None:
    """They come from the right CA: unknown names, none, and two."""
    token_id, _ = optional.token()
    for names, why in (
        (("nobody",), "names an access token that is unknown or revoked"),
        ((token_id.upper(),), "names an access token that is unknown or revoked"),
        ((), "is to have one common name"),
        ((token_id, token_id), "is to have one common name"),
    ):
        with optional.client(protocol, optional.clients.issue(*names)) as client:
            answer = client.ask("GET", "/v1/basins")
            assert is_refused(answer, why), (names, answer)
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_the_audit_log_says_who(optional: Guarded) -> None:
    """The token's id, and the fingerprint of the certificate; also of what was refused."""
    token_id, _ = optional.token()
    shown = optional.clients.issue(token_id)
    with optional.client("h2", shown) as client:
        assert client.ask("POST", "/v1/basins", {"basin": "audited-here"}).status == 403
    unknown = optional.clients.issue("nobody-here")
    with optional.client("h2", unknown) as client:
        assert client.ask("POST", "/v1/basins", {"basin": "audited-here"}).status == 401
    lines = json_lines(optional.server.directory / "audit.log")
    told = [(e["token"], e["certificate"], e["status"]) for e in lines[-2:]]
    assert told == [(token_id, shown.fingerprint, 403), ("-", unknown.fingerprint, 401)], lines


def test_another_ca_takes_over_without_a_restart(tmp_path: Path) -> None:
    """Both CAs in the file: both kinds are let in. The new one alone: the old kind is not, nor by
    a session that it had. A file that cannot be used changes nothing."""
    with guarded_by(tmp_path, "optional") as guarded:
        token_id, _ = guarded.token()
        old, file = guarded.clients, guarded.clients.path
        new = ClientAuthority(tmp_path / "next", "the next year")
        file.write_bytes(old.pem + new.pem)
        await_status(guarded, new.issue(token_id), 200)
        await_status(guarded, old.issue(token_id), 200)
        file.write_bytes(new.pem)
        await_status(guarded, old.issue(token_id), None)
        await_status(guarded, new.issue(token_id), 200)
        file.write_bytes(b"nothing of the kind")
        said = _said(guarded.server, "certificate_unusable")
        assert "holds no certificates in PEM" in said["reason"]
        await_status(guarded, new.issue(token_id), 200)
        assert len(guarded.server.new_errors()) >= 1


def _said(server: Server, event: str) -> dict[str, Any]:
    clock = SystemClock()
    end = clock.monotonic() + SECONDS + LOOK_SECONDS
    wait = threading.Event()
    while clock.monotonic() < end:
        for found in json_lines(server.log):
            if found.get("event") == event:
                return found
        wait.wait(0.1)
    raise AssertionError(f"{event} was not said")
