"""Bodies that are small on the wire and dear to decode, and how large bodies may be that say how
things are to be.

Rules: contract 2.9.
"""

from __future__ import annotations

import gzip
import json

import pytest

from tests.contract.access import EVERY_OP
from tests.contract.client import Client

SHARES_A_BASIN = True

JSON = {"content-type": "application/json"}
CONTROL_BYTES_MAX = 64 * 1024
NUL_FREE = "\x01"
"""Six characters in JSON."""


@pytest.mark.parametrize("dialect", ["svc", "s2"])
@pytest.mark.parametrize(
    ("unit", "status"), [(b"{},", {"svc": 400, "s2": 422}), (b"0,", {"svc": 400, "s2": 400})]
)
def test_a_few_kib_of_gzip_that_say_millions_of_records_are_refused(
    client: Client, basin: str, stream: str, dialect: str, unit: bytes, status: dict[str, int]
) -> None:
    """Without effect; the connection goes on."""
    body = gzip.compress(b'{"records":[{}],"a":[' + unit * 2_600_000 + b"{}]}")
    assert len(body) < 32_000
    headers = {f"{dialect}-basin": basin, "content-encoding": "gzip", **JSON}
    answer = client.request("POST", f"/v1/streams/{stream}/records", body, headers)
    assert answer.status == status[dialect], answer
    assert answer.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 0


def control_requests(basin: str, tag: str) -> list[tuple[str, str, dict[str, object], int]]:
    """The largest legal body of each kind: every member, the longest names, all escaped."""
    stream_config: dict[str, object] = {
        "storage_class": "standard",
        "retention_policy": {"age": 2**53},
        "timestamping": {"mode": "client-require", "uncapped": False},
        "delete_on_empty": {"min_age_secs": 2**53},
    }
    basin_config: dict[str, object] = {
        "default_stream_config": stream_config,
        "stream_cipher": "aes-256-gcm",
        "create_stream_on_append": False,
        "create_stream_on_read": False,
        "storage_class": "standard",
    }
    scope = {
        "basins": {"exact": "b" * 48},
        "streams": {"prefix": NUL_FREE * 512},
        "access_tokens": {"prefix": NUL_FREE * 96},
        "op_groups": {
            group: {"read": True, "write": True} for group in ("account", "basin", "stream")
        },
        "ops": list(EVERY_OP),
    }
    token: dict[str, object] = {
        "id": tag + NUL_FREE * (96 - len(tag)),
        "scope": scope,
        "auto_prefix_streams": True,
        "expires_at": "2099-12-31T23:59:59.999999999+23:59",
    }
    wide = f"{basin}-{tag}".ljust(48, "x")
    stream: dict[str, object] = {
        "stream": tag + NUL_FREE * (512 - len(tag)),
        "config": stream_config,
    }
    return [
        ("POST", "/v1/basins", {"basin": wide, "config": basin_config, "location": "local"}, 201),
        ("PUT", f"/v1/basins/{wide}", {"config": basin_config, "location": "local"}, 200),
        ("PATCH", f"/v1/basins/{wide}", basin_config, 200),
        ("POST", "/v1/streams", stream, 201),
        ("PUT", "/v1/streams/s", {"config": stream_config}, 201),
        ("PATCH", "/v1/streams/s", stream_config, 200),
        ("POST", "/v1/access-tokens", token, 201),
    ]


def test_the_largest_legal_configurations_and_tokens_fit_well(client: Client, basin: str) -> None:
    """A few KiB; filled up with blanks to 64 KiB they are taken too."""
    tag = type(client.connection).__name__[:5].lower()
    for method, path, body, status in control_requests(basin, tag):
        data = json.dumps(body).encode()
        assert len(data) < CONTROL_BYTES_MAX // 8
        headers = dict(JSON) if "basins" in path else {**JSON, "svc-basin": basin}
        answer = client.request(method, path, data.ljust(CONTROL_BYTES_MAX), headers)
        assert answer.status == status, (method, path, answer)
    client.delete("/v1/streams/s", {"svc-basin": basin})


@pytest.mark.parametrize("dialect", ["svc", "s2"])
def test_a_longer_body_that_says_how_things_are_to_be_is_refused(
    client: Client, basin: str, dialect: str
) -> None:
    """One byte more, as sent or decompressed, on every operation but an append."""
    requests = [*control_requests(basin, "long"), ("PUT", "/v1/locations/default", {}, 200)]
    for method, path, body, _ in requests:
        data = json.dumps(body).encode().ljust(CONTROL_BYTES_MAX + 1)
        headers = {**JSON, f"{dialect}-basin": basin}
        if "basins/" in path or path == "/v1/basins":
            del headers[f"{dialect}-basin"]
        assert client.request(method, path, data, headers).status == 413, (method, path)
        headers["content-encoding"] = "gzip"
        answer = client.request(method, path, gzip.compress(data), headers)
        assert (answer.status, answer.json["code"]) == (400, "bad_json"), (method, path)
        assert answer.headers["svc-side-effects"] == "none"
