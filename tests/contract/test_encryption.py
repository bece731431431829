"""Encrypted streams, in both dialects and over both protocols.

Rules: contract 11.1, 11.2 and 11.3.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.contract.client import Answer, Client, EventStream, b64
from tests.contract.conftest import Server
from tests.contract.session_client import append_session, input_frame, read_session

PATH = "/v1/streams/s/records"
KEY = os.urandom(32)
OTHER = os.urandom(32)
NUMBERS = itertools.count()
HEADERS = ("s2-encryption-key", "svc-encryption-key")


@pytest.fixture
def cipher(endpoint: str) -> str:
    """Ciphers and protocols know nothing of each other: one of these for each of those."""
    return "aegis-256" if endpoint.startswith("http:") else "aes-256-gcm"


@pytest.fixture
def sealed(client: Client, cipher: str) -> str:
    """A basin with that cipher and an empty stream `s`."""
    return make_basin(client, stream_cipher=cipher)


def make_basin(client: Client, *, stream: bool = True, **config: Any) -> str:
    name = f"encrypted-{next(NUMBERS):05d}"
    answer = client.post("/v1/basins", {"basin": name, "config": config})
    assert answer.status == 201, answer
    if stream:
        made = client.post("/v1/streams", {"stream": "s"}, {"svc-basin": name})
        assert made.status == 201, made
        assert made.json["cipher"] == config.get("stream_cipher")
    return name


def with_key(key: bytes = KEY, name: str = HEADERS[0]) -> dict[str, str]:
    return {name: b64(key)}


def append(client: Client, basin: str, *bodies: bytes, key: bytes | None = KEY) -> Answer:
    headers = with_key(key) if key is not None else {}
    return client.append(basin, "s", *bodies, headers=headers)


def bodies(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return [record.get("body", "") for record in answer.json["records"]]


def test_records_come_back_with_the_key_only(client: Client, sealed: str) -> None:
    """Headers, bodies and commands, by either header, with blanks around the key."""
    records = [
        {"headers": [[b64("n"), b64("v")], [b64("n"), ""]], "body": b64("body")},
        {},
        {"headers": [["", b64("fence")]], "body": b64("token")},
    ]
    one, other = ({"svc-basin": sealed, name: f"  {b64(KEY)}\t"} for name in HEADERS)
    answer = client.post(PATH, {"records": records}, one)
    assert (answer.status, answer.json["tail"]["seq_num"]) == (200, 3)
    found = client.get(f"{PATH}?seq_num=0", other)
    assert found.status == 200, found
    assert [
        {key: record[key] for key in ("headers", "body") if key in record}
        for record in found.json["records"]
    ] == records
    assert client.tail(sealed, "s") == 3


def test_without_a_key_nothing_is_appended_or_read(
    client: Client, endpoint: str, sealed: str, cipher: str
) -> None:
    """400 bad_header that names the cipher, for every way to ask, at once also at the tail and
    beyond it, and nothing gets in."""
    body = {"records": [{"body": b64("x")}]}
    for dialect in ("svc", "s2"):
        named = {f"{dialect}-basin": sealed}
        answers = [
            client.post(PATH, body, named),
            client.get(f"{PATH}?seq_num=0", named),
            client.get(f"{PATH}?seq_num=0&wait=60", named),
            client.get(f"{PATH}?seq_num=9", named),
            client.get(PATH, {**named, "accept": "text/event-stream"}),
            client.get(PATH, {**named, "content-type": "s2s/proto"}),
        ]
        for answer in answers:
            assert (answer.status, answer.json["code"]) == (400, "bad_header"), answer
            assert cipher in answer.json["message"]
            assert not answer.json["may_have_taken_effect"]
    with append_session(endpoint, sealed, "s") as opened:
        assert opened.status == 400
        assert cipher in json.loads(opened.text())["message"]
    assert client.tail(sealed, "s") == 0


def test_what_can_be_no_key_is_refused(
    client: Client, basin: str, stream: str, sealed: str, cipher: str
) -> None:
    """On an encrypted stream always; on a plain one only by its length and alphabet, otherwise it
    is ignored there."""
    texts = {"": 400, "   ": 400, "A" * 45: 400, "é": 400}
    texts |= {"A" * 44: 200, b64(bytes(31)): 200, "?": 200}
    for (text, on_plain), name in itertools.product(texts.items(), HEADERS):
        for asked, expected in ((sealed, 400), (basin, on_plain)):
            headers = {"svc-basin": asked, name: text}
            put = client.post(PATH, {"records": [{"body": b64("x")}]}, headers)
            got = client.get(f"{PATH}?seq_num=0", headers)
            assert (put.status, got.status) == (expected, expected), (text, put, got)
            if expected == 400:
                assert put.json["code"] == got.json["code"] == "bad_header"
                assert on_plain == 400 or cipher in put.json["message"]
    assert client.tail(sealed, "s") == 0


def test_two_keys_that_differ_are_refused(client: Client, sealed: str) -> None:
    """Nobody knows which was meant; twice the same one is fine."""
    same = {name: b64(KEY) for name in HEADERS}
    assert client.append(sealed, "s", b"x", headers=same).status == 200
    answer = client.append(sealed, "s", b"x", headers={**same, HEADERS[1]: b64(OTHER)})
    assert (answer.status, answer.json["code"]) == (400, "bad_header")


def test_a_key_on_a_plain_stream_is_ignored(client: Client, basin: str, stream: str) -> None:
    """Appended with one key, read with another and with none."""
    assert client.append(basin, "s", b"x", headers=with_key()).status == 200
    for headers in ({}, with_key(), with_key(OTHER)):
        assert bodies(client.get(f"{PATH}?seq_num=0", {"svc-basin": basin, **headers})) == [
            b64("x")
        ]


def test_another_key_appends_but_does_not_open(client: Client, endpoint: str, sealed: str) -> None:
    """400 decryption_failed, an error event, a terminal frame; records up to there are read, and
    metered as they were given."""
    assert append(client, sealed, b"mine").status == 200
    assert append(client, sealed, b"theirs", key=OTHER).status == 200
    mine = {"svc-basin": sealed, **with_key()}
    assert bodies(client.get(f"{PATH}?seq_num=0&count=1", mine)) == [b64("mine")]
    assert bodies(client.get(f"{PATH}?seq_num=0&bytes=12", mine)) == [b64("mine")]
    answer = client.get(f"{PATH}?seq_num=0", mine)
    assert (answer.status, answer.json["code"]) == (400, "decryption_failed")
    theirs = {"svc-basin": sealed, **with_key(OTHER)}
    assert bodies(client.get(f"{PATH}?seq_num=1", theirs)) == [b64("theirs")]
    with EventStream(endpoint, sealed, f"{PATH}?seq_num=1", with_key()) as events:
        (event,) = list(events)
        assert (event.name, event.json["code"]) == ("error", "decryption_failed")
    with read_session(endpoint, sealed, "s", "seq_num=0", **with_key(OTHER)) as reading:
        assert reading.status == 200
        (frame,) = reading.rest()
        assert frame.is_terminal
        status, body = frame.failure()
        assert (status, json.loads(body)["code"]) == (400, "decryption_failed")


def test_sessions_and_events_carry_encrypted_records(
    client: Client, endpoint: str, sealed: str
) -> None:
    """An append session in, then events, a read session and a unary read out, stored and live."""
    with append_session(endpoint, sealed, "s", **with_key()) as appending:
        appending.send(*(input_frame(b"body %d" % number) for number in range(3)))
        appending.half_close()
        assert [appending.ack() for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]
        assert appending.frame() is None
    expected = [b64(b"body %d" % number) for number in range(3)]
    headers = {"svc-basin": sealed, **with_key()}
    assert bodies(client.get(f"{PATH}?seq_num=0", headers)) == expected
    with read_session(endpoint, sealed, "s", "seq_num=0&count=3", **with_key()) as reading:
        assert reading.batch() == ([0, 1, 2], 3)
        assert reading.frame() is None
    with EventStream(endpoint, sealed, f"{PATH}?seq_num=0", with_key()) as events:
        found: list[str] = []
        while len(found) < 3:
            found += [record["body"] for record in events.next("batch").json["records"]]
        assert found == expected
        events.next("ping")
        assert append(client, sealed, b"live").status == 200
        live = events.next("batch")
        assert [record["body"] for record in live.json["records"]] == [b64("live")]
        assert live.id == "3,4,54", "metered as given: 3 x 14 and 12"


def test_followers_with_other_keys_share_nothing(
    client: Client, endpoint: str, sealed: str
) -> None:
    """Two followers of one stream, each with its own key: each record is opened by its own key's
    follower, and ends the other's stream with an error."""
    with (
        EventStream(endpoint, sealed, PATH, with_key()) as mine,
        EventStream(endpoint, sealed, PATH, with_key(OTHER)) as theirs,
        EventStream(endpoint, sealed, PATH, with_key()) as twin,
    ):
        for events in (mine, theirs, twin):
            events.next("ping")
        assert append(client, sealed, b"for mine").status == 200
        for events in (mine, twin):
            (record,) = events.next("batch").json["records"]
            assert record["body"] == b64("for mine")
        event = next(iter(theirs))
        assert (event.name, event.json["code"]) == ("error", "decryption_failed")


def test_the_cipher_is_the_basins_at_creation_and_stays(client: Client, cipher: str) -> None:
    """Configured, shown, inherited, and not touched by later changes of the basin."""
    basin = make_basin(client, stream_cipher=cipher)
    headers = {"svc-basin": basin}
    config = client.get(f"/v1/basins/{basin}")
    assert config.json["stream_cipher"] == cipher
    patched = client.request(
        "PATCH",
        f"/v1/basins/{basin}",
        b'{"stream_cipher":null}',
        {"content-type": "application/json"},
    )
    assert (patched.status, patched.json["stream_cipher"]) == (200, None)
    assert client.post("/v1/streams", {"stream": "plain"}, headers).json["cipher"] is None
    listed = client.get("/v1/streams", headers).json["streams"]
    assert {one["name"]: one["cipher"] for one in listed} == {"s": cipher, "plain": None}
    assert append(client, basin, b"x", key=None).status == 400
    assert append(client, basin, b"x").status == 200
    assert client.append(basin, "plain", b"x").status == 200


def test_a_stream_that_makes_itself_is_encrypted(client: Client, cipher: str) -> None:
    """By an append with a key; one without is refused, whether the stream is there or not."""
    basin = make_basin(client, stream=False, stream_cipher=cipher, create_stream_on_append=True)
    refused = append(client, basin, b"x", key=None)
    assert (refused.status, refused.json["code"]) == (400, "bad_header")
    assert cipher in refused.json["message"]
    assert append(client, basin, b"x").status == 200
    (info,) = client.get("/v1/streams", {"svc-basin": basin}).json["streams"]
    assert (info["name"], info["cipher"]) == ("s", cipher)


def test_a_name_taken_by_another_stream_is_sealed_anew(client: Client, cipher: str) -> None:
    """The gateway remembers which stream had the name; each successor, encrypted or not, gets what
    is sealed for it, and reads back."""
    basin = make_basin(client, stream_cipher=cipher)
    headers = {"svc-basin": basin}
    for wanted in (cipher, None, "aegis-256", "aes-256-gcm"):
        assert append(client, basin, b"before").status == 200
        assert client.delete("/v1/streams/s", headers).status == 202
        change = json.dumps({"stream_cipher": wanted}).encode()
        patched = client.request(
            "PATCH", f"/v1/basins/{basin}", change, {"content-type": "application/json"}
        )
        assert patched.status == 200, patched
        while (made := client.post("/v1/streams", {"stream": "s"}, headers)).status == 409:
            pass
        assert (made.status, made.json["cipher"]) == (201, wanted)
        assert append(client, basin, b"after").status == 200
        found = client.get(f"{PATH}?seq_num=0", {**headers, **with_key()})
        assert bodies(found) == [b64("after")]


@pytest.fixture
def told(server: Server) -> Path:
    """The directory that the server keeps everything in, its log included."""
    return server.log.parent


def test_keys_and_plain_text_are_nowhere(
    client: Client, endpoint: str, sealed: str, told: Path
) -> None:
    """Searched for in every file that the server wrote (WAL, store, log), in the metrics, and in
    all answers: the key in every form it could have, and what it sealed. Commands, on the other
    hand, are there to be found."""
    key, secret = os.urandom(32), b"canary" + os.urandom(12).hex().encode()
    name, mark = b"header" + os.urandom(12).hex().encode(), os.urandom(12).hex().encode()
    headers = {"svc-basin": sealed, **with_key(key)}
    records = [
        {"headers": [[b64(name), b64("v")]], "body": b64(secret)},
        {"headers": [["", b64("fence")]], "body": b64(mark)},
    ]
    answers = [
        client.post(PATH, {"records": records}, headers),
        client.post(PATH, {"records": records, "match_seq_num": 9}, headers),
        client.post(PATH, {"records": records}, {**headers, "svc-encryption-key": b64(OTHER)}),
        client.get(f"{PATH}?seq_num=0", {"svc-basin": sealed, **with_key(OTHER)}),
        client.get(f"{PATH}?seq_num=99", headers),
        client.get("/metrics"),
        client.get(f"/v1/basins/{sealed}"),
    ]
    assert answers[0].status == 200
    assert len(bodies(client.get(f"{PATH}?seq_num=0", headers))) == 2
    hidden = [key, b64(key).encode(), key.hex().encode(), repr(key).encode(), secret, name]
    hidden += (b64(secret).encode().rstrip(b"="), b64(name).encode().rstrip(b"="))
    for answer in answers:
        assert not any(text in answer.body for text in hidden), answer
        assert not any(text in str(answer.headers).encode() for text in hidden), answer
    files = [path for path in told.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in files}
    found = [(path, text) for path, data in contents.items() for text in hidden if text in data]
    assert found == []
    assert any(mark in data for data in contents.values()), "the search does find what is there"
