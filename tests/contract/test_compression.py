"""Content-Encoding of requests and of answers. Rules: contract 4.3 and 4.6."""

from __future__ import annotations

import gzip
import json
import random
import zlib

import pytest
import zstandard

from tests.contract.client import Answer, Client, EventStream, b64

RECORDS = {"records": [{"body": b64("x")}]}
SHARES_A_BASIN = True
JSON_BODY_BYTES_MAX = 8 * 1024 * 1024


def encode(coding: str, data: bytes) -> bytes:
    match coding.lower():
        case "gzip" | "x-gzip":
            return gzip.compress(data)
        case "zstd":
            return zstandard.compress(data)
        case "zstd-unsized":
            return zstandard.ZstdCompressor(write_content_size=False).compress(data)
        case _:
            return data


def send(client: Client, basin: str, stream: str, coding: str, body: bytes) -> Answer:
    return send_to(client, f"/v1/streams/{stream}/records", basin, coding, body)


def send_to(client: Client, path: str, basin: str, coding: str, body: bytes) -> Answer:
    return client.post(
        path, body, {"svc-basin": basin, "content-encoding": coding.removesuffix("-unsized")}
    )


# -- requests


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "zstd", "zstd-unsized", "identity"])
def test_a_compressed_body_is_read(client: Client, basin: str, stream: str, coding: str) -> None:
    """gzip and zstd, whatever the case of their names, also with an unknown size."""
    body = json.dumps(RECORDS).encode()
    assert send(client, basin, stream, coding, encode(coding, body)).status == 200


def test_gzip_of_several_members_is_read(client: Client, basin: str, stream: str) -> None:
    """As the format allows."""
    body = json.dumps(RECORDS).encode()
    assert (
        send(
            client,
            basin,
            stream,
            "gzip",
            b"".join(encode("gzip", body[i : i + 1]) for i in range(len(body))),
        ).status
        == 200
    )


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_compressed_control_requests_are_read(client: Client, basin: str, coding: str) -> None:
    """Not only appends."""
    body = encode(coding, b'{"stream":"made-%b"}' % coding.encode())
    assert send_to(client, "/v1/streams", basin, coding, body).status == 201


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "gzip, zstd", "x"])
def test_other_codings_are_415(client: Client, basin: str, stream: str, coding: str) -> None:
    """A coding that is not undone must not be taken for the content; nested ones are not undone."""
    answer = send(client, basin, stream, coding, json.dumps(RECORDS).encode())
    assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")
    assert answer.json["error"] == "unsupported_media_type"
    assert answer.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 0


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "plain", "trailing", "twice", "empty"])
def test_a_damaged_compressed_body_is_bad_json(
    client: Client, basin: str, stream: str, coding: str, damage: str
) -> None:
    """Cut short, not compressed at all, followed by other bytes, compressed twice, or nothing."""
    whole = encode(coding, json.dumps(RECORDS).encode())
    body = {
        "cut": whole[:-3],
        "plain": json.dumps(RECORDS).encode(),
        "trailing": whole + b"trailing",
        "twice": encode(coding, whole),
        "empty": b"",
    }[damage]
    answer = send(client, basin, stream, coding, body)
    assert (answer.status, answer.json["code"]) == (400, "bad_json")
    assert client.tail(basin, stream) == 0


def _padded(size: int) -> bytes:
    """A legal body of that size which does not compress out of proportion."""
    body = json.dumps(RECORDS).encode()
    noise = b64(random.Random(size).randbytes(64 * 1024)).encode()
    return body[:-1] + b',"padding":"' + noise + b'"}' + b" " * (size - len(body) - len(noise) - 13)


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd", "zstd-unsized"])
def test_8_mib_are_read_and_no_byte_more(
    client: Client, basin: str, stream: str, coding: str
) -> None:
    """A length that is announced is refused unread with 413; what shows while the body is
    decompressed is the body's fault."""
    fits, large = (_padded(JSON_BODY_BYTES_MAX + more) for more in (0, 1))
    assert (len(fits), len(large)) == (JSON_BODY_BYTES_MAX, JSON_BODY_BYTES_MAX + 1)
    assert send(client, basin, stream, coding, encode(coding, fits)).status == 200
    answer = send(client, basin, stream, coding, encode(coding, large))
    if coding == "identity":
        assert (answer.status, answer.json["code"]) == (413, "payload_too_large")
    else:
        assert (answer.status, answer.json["code"]) == (400, "bad_json")
    assert answer.headers["svc-side-effects"] == "none"
    assert client.tail(basin, stream) == 1


@pytest.mark.parametrize(
    "bomb",
    [
        ("gzip", encode("gzip", b" " * 100_000_000)),
        ("zstd", encode("zstd", b" " * 100_000_000)),
        ("zstd", encode("zstd-unsized", b" " * 100_000_000)),
        # Within 8 MiB, and out of all proportion.
        ("zstd", encode("zstd", b" " * 8_000_000)),
        ("gzip", encode("gzip", b"") * 5_000),
    ],
    ids=["gzip", "zstd", "zstd-unsized", "ratio", "members"],
)
def test_a_bomb_is_refused(
    client: Client, basin: str, stream: str, bomb: tuple[str, bytes]
) -> None:
    """Large, out of proportion, or made of many small parts; the connection goes on."""
    answer = send(client, basin, stream, *bomb)
    assert (answer.status, answer.json["code"]) == (400, "bad_json")
    assert client.tail(basin, stream) == 0


# -- answers


def undo(answer: Answer) -> bytes:
    match answer.headers.get("content-encoding"):
        case "gzip":
            return zlib.decompress(answer.body, 31)
        case "zstd":
            return zstandard.decompress(answer.body)
        case None:
            return answer.body
        case other:
            raise AssertionError(other)


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, zstd", "zstd"),
        ("zstd;q=0.1, gzip;q=1.0", "zstd"),
        ("zstd;q=0, GZIP", "gzip"),
        ("zstd; q=0.000, gzip;q=0", None),
        ("br, deflate", None),
        ("*", None),
        ("identity", None),
        ("", None),
    ],
)
def test_a_large_answer_is_compressed_as_the_client_allows(
    client: Client, basin: str, stream: str, accept: str, coding: str | None
) -> None:
    """zstd before gzip, whatever the weights but 0; the content is the same."""
    assert client.append(basin, stream, b"x" * 5_000).status == 200
    plain = client.read(basin, stream, "seq_num=0")
    answer = client.read(basin, stream, "seq_num=0", **{"accept-encoding": accept})
    assert answer.status == 200
    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["content-length"] == str(len(answer.body))
    assert undo(answer) == plain.body
    assert json.loads(undo(answer))["records"][0]["body"] == b64(b"x" * 5_000)


def test_only_bodies_over_1024_bytes_are_compressed(
    client: Client, basin: str, stream: str
) -> None:
    """The edge itself: 1024 bytes go as they are."""
    text = {"svc-format": "utf8"}
    client.append(basin, stream, b"x")
    without_body = len(client.read(basin, stream, "seq_num=0", **text).body) - 1
    for seq_num, size, coding in ((1, 1024, None), (2, 1025, "zstd")):
        client.append(basin, stream, b"y" * (size - without_body))
        query = f"seq_num={seq_num}"
        plain = client.read(basin, stream, query, **text)
        assert len(plain.body) == size
        answer = client.read(basin, stream, query, **text, **{"accept-encoding": "zstd, gzip"})
        assert answer.headers.get("content-encoding") == coding
        assert undo(answer) == plain.body


def test_events_are_never_compressed(
    endpoint: str, client: Client, basin: str, stream: str
) -> None:
    """Each must arrive when it is sent."""
    client.append(basin, stream, b"x" * 5_000)
    with EventStream(
        endpoint,
        basin,
        f"/v1/streams/{stream}/records?seq_num=0&count=1",
        {"accept-encoding": "gzip, zstd"},
    ) as events:
        assert events.response.headers.get("content-encoding") is None
        assert len(events.next("batch").data) > 5_000


def test_answers_of_every_kind_are_compressed(client: Client) -> None:
    """Not only records."""
    answer = client.get("/openapi.json", {"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(undo(answer))["openapi"] == "3.1.0"
