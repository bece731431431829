"""Which answers caches that serve many may keep: closed ranges of streams whose configuration says
so, where nobody is asked for a token. Rules: contract 14.8."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.cli.local.ports import HeldPorts
from tests.contract.access import EVERYWHERE
from tests.contract.client import Answer, Client, b64
from tests.contract.conftest import Server, running
from tests.contract.guarded import Guarded, guarded_by
from tests.older_formation import form

PUBLIC = "public, max-age=60, must-revalidate"
PRIVATE = "private, max-age=60"
SHARED = {"caching": {"shared": True}}
COMMAND_S = 60.0
NUMBERS = itertools.count()
FORMS = ("application/json", "application/protobuf")


def finalize(address: str) -> None:
    command = ["admin", "upgrade", "finalize", "--yes", "--address", address]
    done = subprocess.run(
        [sys.executable, "-m", "svc_cluster", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def new_server(directory: Path) -> tuple[Server, str]:
    """A server, and where its administration is."""
    held = HeldPorts(1)
    address = f"127.0.0.1:{held.numbers[0]}"
    return Server(directory, 10.0, "", {"admin_rpc_address": address}), address


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It asks nobody for a token, and its cluster is at the version that has the setting."""
    made, address = new_server(tmp_path_factory.mktemp("shared"))
    with running(made):
        finalize(address)
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The same where everybody is asked for one."""
    address = f"127.0.0.1:{HeldPorts(1).numbers[0]}"
    directory = tmp_path_factory.mktemp("guarded")
    with guarded_by(directory, "optional", {"admin_rpc_address": address}) as made:
        finalize(address)
        yield made


def filled(client: Client, config: object, **more: str) -> str:
    """A basin with a stream `s` of this configuration and three records."""
    basin = f"shared-{next(NUMBERS):05d}"
    made = client.post("/v1/basins", {"basin": basin, "config": more})
    assert made.status == 201, made
    asked = {"svc-basin": basin}
    stream = client.post("/v1/streams", {"stream": "s", "config": config}, asked)
    assert stream.status == 201, stream
    key = {"svc-encryption-key": b64(b"k" * 32)} if more else {}
    records = {"records": [{"body": ""}, {"body": ""}, {"body": ""}]}
    assert client.post("/v1/streams/s/records", records, asked | key).status == 200
    return basin


def ask(client: Client, basin: str, more: dict[str, str] | None = None, query: str = "") -> Answer:
    asked = {"svc-basin": basin, **(more or {})}
    return client.get(f"/v1/streams/s/records?seq_num=0&count=2{query}", asked)


def change(
    client: Client, method: str, path: str, body: object, head: dict[str, str] | None = None
) -> Answer:
    named = {"content-type": "application/json", **(head or {})}
    return client.request(method, path, json.dumps(body).encode(), named)


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_says_so_may_be_kept_by_all_caches(client: Client, form: str) -> None:
    """Its closed ranges alone; with the same `vary` and tag as others, on 304 as well."""
    basin = filled(client, SHARED)
    first = ask(client, basin, {"accept": form})
    assert (first.status, first.headers["cache-control"]) == (200, PUBLIC)
    vary = set(first.headers["vary"].split(", "))
    assert {"authorization", "origin", "svc-basin", "s2-basin", "accept"} <= vary
    again = ask(client, basin, {"accept": form, "if-none-match": first.headers["etag"]})
    assert (again.status, again.headers["cache-control"]) == (304, PUBLIC)
    assert set(again.headers["vary"].split(", ")) == vary
    still_open = client.get("/v1/streams/s/records?seq_num=0&count=9", {"svc-basin": basin})
    assert still_open.headers["cache-control"] == "no-store"


def test_streams_that_say_nothing_are_for_their_readers_alone(client: Client) -> None:
    """By default, and where the configuration says that they are not shared."""
    for config in ({}, {"caching": {"shared": False}}, {"caching": None}):
        answer = ask(client, filled(client, config))
        assert answer.headers["cache-control"] == PRIVATE


def test_who_shows_a_token_or_a_ticket_gets_what_is_for_nobody_else(client: Client) -> None:
    """Though nothing is asked for here: a cache may stand before other gateways too."""
    basin = filled(client, SHARED)
    for head, query in (({"authorization": "Bearer x"}, ""), ({}, "&ticket=x")):
        answer = ask(client, basin, head, query)
        assert (answer.status, answer.headers["cache-control"]) == (200, PRIVATE)


def test_encrypted_streams_are_kept_by_no_cache_whatever_they_say(client: Client) -> None:
    """Their records are plain in the answer."""
    basin = filled(client, SHARED, stream_cipher="aes-256-gcm")
    answer = ask(client, basin, {"svc-encryption-key": b64(b"k" * 32)})
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")


def test_what_takes_a_token_is_never_for_shared_caches(guarded: Guarded) -> None:
    """They would give it to who has none, and behind a revocation; with a ticket as well, whose
    text may be in their logs, and with a certificate, of which the request shows nothing."""
    basin = f"shared-{next(NUMBERS):05d}"
    assert guarded.as_root("POST", "/v1/basins", {"basin": basin}).status == 201
    stream = {"stream": "s", "config": SHARED}
    assert guarded.as_root("POST", "/v1/streams", stream, svc_basin=basin).status == 201
    records = {"records": [{"body": ""}] * 3}
    path = "/v1/streams/s/records"
    assert guarded.as_root("POST", path, records, svc_basin=basin).status == 200
    token_id, secret = guarded.token(scope={**EVERYWHERE, "ops": ["read"]})
    ticket = {"basin": basin, "streams": {"exact": "s"}}
    issued = guarded.as_root("POST", "/v1/read-tickets", ticket)
    assert issued.status == 201, issued
    closed = f"{path}?seq_num=0&count=2"
    by_ticket = f"{closed}&ticket={issued.json['read_ticket']}"
    ways = (
        (closed, secret, None),
        (by_ticket, None, None),
        (closed, None, guarded.clients.issue(token_id)),
    )
    for query, shown, certificate in ways:
        with guarded.client("http/1.1", certificate) as client:
            answer = client.ask("GET", query, None, shown, svc_basin=basin)
        assert (answer.status, answer.headers["cache-control"]) == (200, PRIVATE), query


def test_the_setting_is_told_changed_and_cleared(client: Client) -> None:
    """It is told only where it says something; what is cleared falls back to the basin's default;
    what was read before keeps its tag, and is answered by what holds now."""
    basin = filled(client, {})
    asked = {"svc-basin": basin}
    assert "caching" not in client.get("/v1/streams/s", asked).json
    before = ask(client, basin)
    changed = change(client, "PATCH", "/v1/streams/s", SHARED, asked)
    assert (changed.status, changed.json["caching"]) == (200, {"shared": True})
    known = ask(client, basin, {"if-none-match": before.headers["etag"]})
    assert (known.status, known.headers["cache-control"]) == (304, PUBLIC)
    default = {"default_stream_config": SHARED}
    assert change(client, "PATCH", f"/v1/basins/{basin}", default).json[
        "default_stream_config"
    ] == {
        **dict.fromkeys(("storage_class", "retention_policy", "timestamping", "delete_on_empty")),
        **SHARED,
    }
    off = change(client, "PATCH", "/v1/streams/s", {"caching": {"shared": False}}, asked)
    assert (off.status, off.json.get("caching")) == (200, None)
    assert ask(client, basin).headers["cache-control"] == PRIVATE
    cleared = change(client, "PATCH", "/v1/streams/s", {"caching": None}, asked)
    assert (cleared.status, cleared.json["caching"]) == (200, {"shared": True})


def test_it_is_there_after_a_restart(server: Server) -> None:
    """In the rows of the catalog, of the basin and of the stream."""
    with Client(f"http://127.0.0.1:{server.port}") as client:
        basin = filled(client, SHARED)
        change(client, "PATCH", f"/v1/basins/{basin}", {"default_stream_config": SHARED})
    server.restart()
    with Client(f"http://127.0.0.1:{server.port}") as client:
        assert ask(client, basin).headers["cache-control"] == PUBLIC
        config = client.get(f"/v1/basins/{basin}").json
        assert config["default_stream_config"]["caching"] == {"shared": True}


def test_before_its_version_is_active_it_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Nothing is made then; that it is off can be said all the same of a stream."""
    form({1: tmp_path / "node-1"}, "contract")
    made, address = new_server(tmp_path)
    with running(made), Client(f"http://127.0.0.1:{made.port}") as client:
        basin = filled(client, {"caching": {"shared": False}})
        asked = {"svc-basin": basin}
        refused = change(client, "PUT", "/v1/streams/t", SHARED, asked)
        assert refused.status == 503, refused
        assert "upgrade finalize" in refused.json["message"]
        assert client.get("/v1/streams/t", asked).status == 404
        finalize(address)
        assert change(client, "PUT", "/v1/streams/t", SHARED, asked).status in (200, 201)
