"""Methods that every resource has: HEAD and OPTIONS. Rules: contract 3.1."""

from __future__ import annotations

import pytest

from tests.contract.client import Client


@pytest.mark.parametrize("path", ["/health", "/v1/basins", "/nowhere"])
def test_head_has_the_headers_of_get_and_no_body(client: Client, path: str) -> None:
    """The connection stays in step."""
    head = client.request("HEAD", path)
    get = client.get(path)
    assert head.body == b""
    assert head.status == get.status
    assert head.headers["content-length"] == str(len(get.body))


def test_options_and_cors_mirror_the_origin(client: Client, basin: str) -> None:
    """A preflight is answered without credentials; errors can be read by pages too."""
    asked = {
        "origin": "https://page.localhost:8443",
        "access-control-request-method": "POST",
        "access-control-request-headers": "svc-basin, content-type",
    }
    answer = client.request("OPTIONS", "/v1/streams", None, asked)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == "https://page.localhost:8443"
    assert answer.headers["access-control-allow-headers"] == "svc-basin, content-type"
    assert "POST" in answer.headers["access-control-allow-methods"]
    refused = client.get(
        "/v1/streams/s", {"svc-basin": basin, "origin": "https://page.localhost:8443"}
    )
    assert refused.status == 404
    assert refused.headers["access-control-allow-origin"] == "https://page.localhost:8443"
    assert client.request("OPTIONS", "/nowhere").status == 404
