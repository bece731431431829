"""What caches are told, in both dialects and protocols, JSON and protobuf. Rules: contract
14.7, 14.8 and 14.9."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from tests.contract.access import Account
from tests.contract.client import Answer, Client, EventStream, b64
from tests.contract.conftest import new_basin

SHARES_A_BASIN = True
DIALECTS = ("svc-basin", "s2-basin")
FORMS = ("application/json", "application/protobuf")
KEPT = "private, max-age=60"
VARYING = {
    "accept",
    "authorization",
    "origin",
    "s2-basin",
    "s2-format",
    "svc-basin",
    "svc-format",
}
KEY = b64(b"k" * 32)
NUMBERS = itertools.count()

dialects = pytest.mark.parametrize("named", DIALECTS)
forms = pytest.mark.parametrize("form", FORMS)


def read(client: Client, stream: str, query: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.get(f"/v1/streams/{stream}/records?{query}", named)


def numbers(answer: Answer) -> list[int]:
    if answer.headers["content-type"] == "application/json":
        return [record["seq_num"] for record in answer.json["records"]]
    return [record.seq_num for record in pb.ReadBatch.FromString(answer.body).records]


def asked(basin: str, named: str, form: str) -> dict[str, str]:
    return {named: basin, "accept": form}


@dialects
@forms
def test_a_closed_range_is_kept_for_a_minute_and_asked_for_again_by_its_tag(
    client: Client, basin: str, stream: str, named: str, form: str
) -> None:
    """`private`, with a weak tag; 304 without a body or its length, and with the tag again."""
    for body in (b"a", b"b", b"c"):
        client.append(basin, stream, body)
    head = asked(basin, named, form)
    first = read(client, stream, "seq_num=0&count=2", **head)
    assert (first.status, numbers(first)) == (200, [0, 1])
    assert first.headers["cache-control"] == KEPT
    assert set(first.headers["vary"].split(", ")) >= VARYING
    tag = first.headers["etag"]
    assert tag.startswith('W/"')
    for known in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        again = read(client, stream, "seq_num=0&count=2", **head, if_none_match=known)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert again.headers["cache-control"] == KEPT
        assert set(again.headers["vary"].split(", ")) >= VARYING
        assert "content-length" not in again.headers and "content-type" not in again.headers
    other = read(client, stream, "seq_num=0&count=2", **head, if_none_match='W/"other"')
    assert (other.status, other.body) == (200, first.body)


@dialects
@forms
def test_a_trim_into_the_range_changes_its_tag(
    client: Client, basin: str, stream: str, named: str, form: str
) -> None:
    """Whoever asks by the old tag is given what is left."""
    for number in range(6):
        client.append(basin, stream, str(number).encode())
    head = asked(basin, named, form)
    closed = "seq_num=0&count=4"
    tag = read(client, stream, closed, **head).headers["etag"]
    trim = {"headers": [[b64(b""), b64(b"trim")]], "body": b64((2).to_bytes(8, "big"))}
    path = f"/v1/streams/{stream}/records"
    assert client.post(path, {"records": [trim]}, {"svc-basin": basin}).status == 200
    after = read(client, stream, closed, **head, if_none_match=tag)
    assert (after.status, numbers(after)) == (200, [2, 3, 4, 5])
    assert after.headers["etag"] != tag


@dialects
def test_the_tag_is_of_the_form_too(client: Client, basin: str, stream: str, named: str) -> None:
    """JSON, text and protobuf are three answers; one is never taken for another."""
    client.append(basin, stream, b"a")
    client.append(basin, stream, b"b")
    tags = {
        read(client, stream, f"seq_num=0&count=1{word}", **asked(basin, named, form)).headers[
            "etag"
        ]
        for form, word in (
            (FORMS[0], ""),
            (FORMS[1], ""),
            (FORMS[0], "&format=utf8"),
            (FORMS[0], "&format=base64"),
        )
    }
    assert len(tags) == 3


@dialects
@forms
@pytest.mark.parametrize(
    "query",
    [
        "seq_num=0",  # ends at the tail
        "seq_num=0&count=4",  # the fourth may come
        "seq_num=0&count=0",  # nothing
        "seq_num=0&until=18446744073709551615",
        "tail_offset=2&count=1",  # begins elsewhere each time
        "seq_num=9",  # refused
    ],
)
def test_what_may_be_another_answer_later_is_not_kept(
    client: Client, basin: str, stream: str, named: str, form: str, query: str
) -> None:
    """Open ranges, ranges that begin elsewhere each time, and refusals."""
    for body in (b"a", b"b", b"c"):
        client.append(basin, stream, body)
    answer = read(client, stream, query, **asked(basin, named, form))
    assert answer.headers["cache-control"] == "no-store"
    assert "etag" not in answer.headers


@forms
def test_a_range_by_time_is_closed_by_time(
    client: Client, basin: str, stream: str, form: str
) -> None:
    """Timestamps never go down: behind a record at `until` nothing comes that belongs there."""
    for at in (1_000, 2_000, 3_000):
        record = {"timestamp": at, "body": ""}
        client.post(f"/v1/streams/{stream}/records", {"records": [record]}, {"svc-basin": basin})
    head = asked(basin, "svc-basin", form)
    closed = read(client, stream, "timestamp=1500&until=3000", **head)
    assert (numbers(closed), closed.headers["cache-control"]) == ([1], KEPT)
    still_open = read(client, stream, "timestamp=1500&until=3001", **head)
    assert (numbers(still_open), still_open.headers["cache-control"]) == ([1, 2], "no-store")


def test_another_stream_of_the_name_has_another_tag(
    client: Client, endpoint: str, basin: str
) -> None:
    """Its records have the same numbers, and are others."""
    tags = []
    for _ in range(2):
        own = new_basin(client)
        client.create_stream(own, "s")
        client.append(own, "s", b"a")
        client.append(own, "s", b"a")
        tags.append(read(client, "s", "seq_num=0&count=1", s2_basin=own).headers["etag"])
    assert tags[0] != tags[1]


@dialects
def test_encrypted_records_are_never_kept(client: Client, named: str) -> None:
    """They are plain in the answer, and caches write to disks."""
    own = f"caching-{next(NUMBERS):05d}"
    config = {"stream_cipher": "aes-256-gcm"}
    assert client.post("/v1/basins", {"basin": own, "config": config}).status == 201
    client.create_stream(own, "s")
    key = {"svc-encryption-key": KEY, "svc-basin": own}
    records = {"records": [{"body": b64(b"a")}, {"body": b64(b"b")}]}
    assert client.post("/v1/streams/s/records", records, key).status == 200
    family = named.partition("-")[0]
    shown = read(client, "s", "seq_num=0&count=1", **{named: own, f"{family}-encryption-key": KEY})
    assert (shown.status, shown.headers["cache-control"]) == (200, "no-store")
    assert "etag" not in shown.headers


def test_a_header_of_a_dialect_that_caches_do_not_go_by_keeps_the_answer_from_them(
    client: Client, basin: str, stream: str
) -> None:
    """It may decide the dialect, and with it the answer."""
    client.append(basin, stream, b"a")
    client.append(basin, stream, b"b")
    known = read(client, stream, "seq_num=0&count=1", svc_basin=basin, svc_strict="true")
    assert known.headers["cache-control"] == KEPT
    unknown = read(client, stream, "seq_num=0&count=1", svc_basin=basin, svc_colour="red")
    assert unknown.headers["cache-control"] == "no-store"


@dialects
@pytest.mark.parametrize(
    "path",
    [
        "/v1/streams/{stream}/records/tail",
        "/v1/streams/{stream}",
        "/v1/streams",
        "/v1/basins",
        "/v1/access-tokens",
        "/v1/streams/none",
        "/v1/none",
        "/health",
    ],
)
def test_answers_that_say_nothing_else_are_not_kept(
    client: Client, basin: str, stream: str, named: str, path: str
) -> None:
    """GET and HEAD alike, found or refused: nothing is left to what caches guess."""
    for method in ("GET", "HEAD"):
        answer: Any = client.request(method, path.format(stream=stream), None, {named: basin})
        assert answer.headers["cache-control"] == "no-store", (method, path)


def test_answers_that_show_secrets_are_not_kept(guarded: Account) -> None:
    """Though they answer a POST."""
    scope = {"streams": {"prefix": ""}, "basins": {"prefix": ""}, "ops": ["read"]}
    issued = guarded.ask("POST", "/v1/access-tokens", {"id": "cached", "scope": scope})
    assert (issued.status, issued.headers["cache-control"]) == (201, "no-store")
    ticket = {"basin": "cached-basin", "streams": {"exact": "s"}}
    opened = guarded.ask("POST", "/v1/read-tickets", ticket)
    assert (opened.status, opened.headers["cache-control"]) == (201, "no-store")


def test_streams_without_an_end_are_as_before(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """Events are passed on as they come, and kept by nobody for long."""
    client.append(basin, stream, b"a")
    path = f"/v1/streams/{stream}/records?seq_num=0&count=1"
    with EventStream(endpoint, basin, path, {}) as events:
        headers = {name.lower(): value for name, value in events.response.headers.items()}
        assert headers["cache-control"] == "no-cache, no-transform"
        assert "etag" not in headers
