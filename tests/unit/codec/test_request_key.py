"""Which requests are one and the same, and the exact bytes of that."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from svc_cluster.codec.request_key import append_hash, body_hash, request_key
from svc_cluster.model.idempotency_table import REQUEST_KEY_BYTES
from svc_cluster.model.record import StoredBatch

RECORDS = "/v1/streams/{stream}/records"
BATCH = StoredBatch(b"rr", 2, 20)


def test_keys_outlive_programs() -> None:
    """What is kept for a day must be found by the next version."""
    key = request_key("POST", RECORDS, ("basin-one", "s"), "tok", body_hash(b"{}"))
    assert key.hex() == "461c9d25b600d25572df690668d6c9ff6334e752bd60c09857b74a14386eabff"
    assert len(key) == REQUEST_KEY_BYTES
    assert append_hash(BATCH, None, None).hex() == (
        "2f4c8c79e679d56aa5b50df6f9a396268bf3f43cc278c3ed7f214eb4e4799ff7"
    )


def test_every_part_tells_requests_apart() -> None:
    """Also where one part's end is another one's beginning."""
    body = body_hash(b"{}")
    keys = [
        request_key("POST", RECORDS, ("basin-one", "s"), "tok", body),
        request_key("PUT", RECORDS, ("basin-one", "s"), "tok", body),
        request_key("POST", "/v1/streams", ("basin-one", "s"), "tok", body),
        request_key("POST", RECORDS, ("basin-two", "s"), "tok", body),
        request_key("POST", RECORDS, ("basin-one", "t"), "tok", body),
        request_key("POST", RECORDS, ("basin-ones", ""), "tok", body),
        request_key("POST", RECORDS, ("basin-one", "s"), "to", body),
        request_key("POST", RECORDS, ("basin-one", "s"), "TOK", body),
        request_key("POST", RECORDS, ("k", "basin-one", "s"), "to", body),
        request_key("POST", RECORDS, ("basin-one", "s"), "tok", body_hash(b"{} ")),
    ]
    assert all(one != other for one, other in combinations(keys, 2))


def test_conditions_are_part_of_an_append() -> None:
    """A condition of zero, or the empty token, is one."""
    hashes = [
        append_hash(BATCH, None, None),
        append_hash(BATCH, 0, None),
        append_hash(BATCH, 1, None),
        append_hash(BATCH, None, ""),
        append_hash(BATCH, None, "t"),
        append_hash(BATCH, 0, ""),
        append_hash(replace(BATCH, records=b"rs"), None, None),
    ]
    assert all(one != other for one, other in combinations(hashes, 2))


def test_bytes_of_any_kind_make_a_token() -> None:
    """Header values hold a byte a character."""
    keys = {request_key("POST", RECORDS, (), chr(byte), b"") for byte in range(256)}
    assert len(keys) == 256
