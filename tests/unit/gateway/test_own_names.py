"""Which hosts are answered for, and which pages may ask, where nobody is asked for a token."""

from __future__ import annotations

import pytest

from svc_cluster.base.errors import PermissionDeniedError
from svc_cluster.gateway.request.host_names import FOREIGN_HOST, FOREIGN_PAGE, OwnNames
from svc_cluster.http.message import Request

OWN = OwnNames(["Gateway", "svc.example"])


def refusal(names: OwnNames, method: str = "GET", **headers: str) -> str | None:
    try:
        names.check(Request(method, "/v1/basins", "", list(headers.items())))
    except PermissionDeniedError as refused:
        return refused.message
    return None


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.0.0.1:8080", "10.1.2.3:80", "[::1]", "[::1]:8080", "[2001:db8::1]:80"),
        *("localhost", "LOCALHOST:8080", "localhost.", "a.localhost", "basin-01.b.localhost:80"),
        *("gateway", "Gateway:8080", "svc.example", "SVC.example.", "basin-01.b.svc.example:80"),
    ],
)
def test_own_hosts_are_answered_for(host: str) -> None:
    """Literal addresses, names of loopback, and what is listed; basins below a listed name."""
    assert refusal(OWN, host=host) is None
    assert refusal(OWN, "POST", host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *(
            "",
            ":8080",
            "page.example",
            "svc.example.evil.example",
            "evilsvc.example",
            "localhost.a",
        ),
        *(
            "xlocalhost",
            "127.0.0.1.evil.example",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "[::1",
            "[]",
        ),
        *(
            "[gateway]x",
            "[::1]x",
            "basin-01.b.evil.example",
            "basin-01.b.",
            "a.gateway",
            ".localhos",
        ),
        *("b.svc.example", "x.b.svc.example", "basin-01.b.gateway.evil.example", "localhost.."),
    ],
)
def test_other_hosts_are_refused_with_what_to_set(host: str) -> None:
    """Whatever the method: a page whose name leads here reads as well as it writes."""
    for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE"):
        assert refusal(OWN, method, host=host) == FOREIGN_HOST
    assert "public_hosts" in FOREIGN_HOST
    assert "authentication" in FOREIGN_HOST


def test_configured_suffixes_count_and_the_default_shape_of_any_domain_does_not() -> None:
    """A suffix is the operator's own name; `b` in front of any domain is everybody's."""
    configured = OwnNames((), ["s.example"])
    assert refusal(configured, host="basin-01.s.example:80") is None
    assert refusal(configured, host="basin-01.b.other.example") == FOREIGN_HOST
    assert refusal(configured, host="a.basin-01.s.example") == FOREIGN_HOST
    assert refusal(OwnNames(), host="basin-01.b.other.example") == FOREIGN_HOST


def test_a_request_without_a_host_is_no_browser_s() -> None:
    """HTTP/1.0 has none; a page's write is refused there all the same."""
    assert refusal(OWN) is None
    assert refusal(OWN, "POST", origin="https://page.example") == FOREIGN_PAGE


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost", "https://localhost:3000", "http://a.localhost:1", "HTTP://LocalHost"),
        *("http://127.0.0.1:3000", "http://127.8.9.1", "http://[::1]:3000"),
    ],
)
def test_pages_of_loopback_may_read_and_write(origin: str) -> None:
    """Whatever their port and scheme of the two."""
    assert OWN.is_page(origin)
    assert refusal(OWN, "POST", host="localhost:8080", origin=origin) is None


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "https://page.example", "https://localhost.page.example", "http://10.0.0.1"),
        *("https://svc.example", "file://", "file://localhost", "http://127.0.0.1.page.example"),
        *("localhost", "chrome-extension://localhost", "http://user@localhost"),
    ],
)
def test_pages_of_other_origins_neither_read_nor_write(origin: str) -> None:
    """A write is refused before it is done: a browser would hide its answer, not its effect."""
    assert not OWN.is_page(origin)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert refusal(OWN, method, host="localhost:8080", origin=origin) == FOREIGN_PAGE
    assert refusal(OWN, "GET", host="localhost:8080", origin=origin) is None


def test_a_page_of_the_gateway_s_own_name_may_write() -> None:
    """It asks nobody: host and origin are one. Another port is another origin."""
    assert refusal(OWN, "POST", host="svc.example:81", origin="https://SVC.example:81") is None
    assert refusal(OWN, "POST", host="svc.example", origin="https://svc.example:81") is not None


def test_verdicts_are_remembered_within_a_bound() -> None:
    """However many names are sent."""
    names = OwnNames()
    for number in range(2_000):
        refusal(names, "POST", host=f"{number}.localhost", origin=f"http://{number}.localhost")
    for cache in (names._is_own, names._is_loopback):
        assert cache.cache_info().currsize <= 256
