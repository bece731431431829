"""Access tokens on the wire: issuing and its refusals, lists, prefixes, revocation of what is open,
and that no secret is kept anywhere.

Rules: contract 12.1, 12.2, 12.4, 12.5, 12.6 and 2.2.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.codec.session_frame import encode_frame
from tests.contract.access import ALL, EVERY_OP, EVERYWHERE, ROOT_SECRET, Account, bearer
from tests.contract.client import Answer, Client, EventStream, b64, raw_exchange
from tests.contract.session_client import (
    Session,
    append_session,
    input_frame,
    read_session,
)

_NUMBERS = itertools.count()
READ = {**EVERYWHERE, "ops": ["read"]}
FOR_EVER = {**EVERYWHERE, "ops": ["issue-access-token", "list-basins"]}


@pytest.fixture
def basin(guarded: Account) -> str:
    name = f"tokens-{next(_NUMBERS):05}"
    assert guarded.ask("POST", "/v1/basins", {"basin": name}).status == 201
    return name


def make(account: Account, basin: str, *streams: str) -> None:
    for stream in streams:
        answer = account.ask("POST", "/v1/streams", {"stream": stream}, svc_basin=basin)
        assert answer.status == 201, answer


def wanted(account: Account, body: dict[str, Any], **headers: str) -> Answer:
    return account.ask("POST", "/v1/access-tokens", body, **headers)


def test_a_connection_that_repeats_itself_is_asked_who_it_is_each_time(
    guarded: Account, basin: str
) -> None:
    """The very same bytes, once the token is revoked; and those of another token beside them."""
    make(guarded, basin, "s")
    append = {**EVERYWHERE, "ops": ["append"]}
    (token_id, first), (_, second) = guarded.issue(append), guarded.issue(append)
    body = {"records": [{"body": b64(b"x")}]}
    with Client(guarded.endpoint) as client:

        def status(secret: str) -> int:
            headers = {**bearer(secret), "svc-basin": basin}
            return client.post("/v1/streams/s/records", body, headers).status

        assert [status(first), status(first), status(second)] == [200, 200, 200]
        assert guarded.revoke(token_id).status == 204
        assert [status(first), status(first), status(second)] == [401, 401, 200]


# -- issuing


@pytest.mark.parametrize(
    ("scope", "members", "message"),
    [
        ({}, {}, "Access token permissions cannot be empty"),
        ({"ops": []}, {}, "Access token permissions cannot be empty"),
        ({"op_groups": {"account": {}}}, {}, "Access token permissions cannot be empty"),
        (
            {"ops": ["read"]},
            {"auto_prefix_streams": True},
            "Auto prefixing is only allowed for streams with prefix matching",
        ),
        (
            {"ops": ["read"], "streams": {"exact": "a"}},
            {"auto_prefix_streams": True},
            "Auto prefixing is only allowed for streams with prefix matching",
        ),
    ],
)
def test_requests_without_sense(
    guarded: Account, scope: dict[str, Any], members: dict[str, Any], message: str
) -> None:
    """The exact sentences; 422 in the S2 dialect and 400 in the other, nothing is issued."""
    body = {"id": "no-sense", "scope": scope, **members}
    for headers, status in (({"user_agent": "s2-sdk-rust/1"}, 422), ({"svc_format": "utf8"}, 400)):
        answer = wanted(guarded, body, **headers)
        assert (answer.status, answer.json["code"]) == (status, "invalid"), answer
        assert answer.json["message"] == message
    assert guarded.revoke("no-sense").status == 404


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (
            {"op_groups": {"streem": {"read": True}}},
            "there is no member `scope.op_groups.streem`; there are `account`, `basin`, `stream`",
        ),
        (
            {"op_groups": {"stream": {"reed": True}}},
            "there is no member `scope.op_groups.stream.reed`; there are `read`, `write`",
        ),
    ],
)
def test_a_slip_in_a_group_of_operations_is_named(
    guarded: Account, scope: dict[str, Any], told: str
) -> None:
    """It is ignored, as every unknown member, so that nothing is permitted; with strictness it is
    refused by itself. Both say which groups there are."""
    body = {"id": "slip", "scope": scope}
    for headers, status in (({"user_agent": "s2-sdk-rust/1"}, 422), ({"svc_format": "utf8"}, 400)):
        answer = wanted(guarded, body, **headers)
        assert (answer.status, answer.json["code"]) == (status, "invalid"), answer
        assert answer.json["message"] == f"Access token permissions cannot be empty; {told}"
        answer = wanted(guarded, body, **headers, svc_strict="true")
        assert (answer.status, answer.json["code"]) == (400, "bad_json"), answer
        assert answer.json["message"] == told
    assert guarded.revoke("slip").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"id": "x"},
        {"id": "", "scope": READ},
        {"id": "..", "scope": READ},
        {"id": "x" * 97, "scope": READ},
        {"id": "x", "scope": {"ops": ["fly"]}},
        {"id": "x", "scope": {"ops": ["read"], "basins": {}}},
        {"id": "x", "scope": {"ops": ["read"], "basins": {"exact": "a", "prefix": "a"}}},
        {"id": "x", "scope": {"ops": ["read"], "basins": {"exact": "NOT A BASIN"}}},
        {"id": "x", "scope": {"ops": ["read"], "basins": {"prefix": "-"}}},
        {"id": "x", "scope": {"ops": ["read"], "streams": {"exact": ".."}}},
        {"id": "x", "scope": {"ops": ["read"], "streams": {"prefix": "s" * 513}}},
        {"id": "x", "scope": {"ops": ["read"], "access_tokens": {"prefix": "t" * 97}}},
        {"id": "x", "scope": READ, "expires_at": "tomorrow"},
        {"id": "x", "scope": READ, "expires_at": "2030-02-30T00:00:00Z"},
        {"id": "x", "scope": READ, "expires_at": "2030-01-01T00:00:00"},
        {"id": "x", "scope": READ, "auto_prefix_streams": "yes"},
    ],
)
def test_malformed_requests(guarded: Account, body: dict[str, Any]) -> None:
    """400 bad_json, and nothing is issued."""
    answer = wanted(guarded, body)
    assert (answer.status, answer.json["code"]) == (400, "bad_json"), answer
    assert answer.json["may_have_taken_effect"] is False


IMPOSSIBLE: list[tuple[str, str]] = [
    ('{"ops":["read"],"streams":{"prefix":"a","prefix":"b"}}', "the member `prefix` stands twice"),
    ('{"ops":["read"],"ops":["append"]}', "the member `ops` stands twice"),
    ('{"ops":["READ"]}', "ops has `READ`; the operations are `"),
    ('{"ops":["read "]}', "ops has `read `; the operations are `"),
    ('{"ops":["*"]}', "ops has `*`; the operations are `"),
    ('{"ops":[""]}', "ops has ``; the operations are `"),
    ('{"ops":"read"}', "the body is not as expected"),
    ('{"ops":[null]}', "the body is not as expected"),
    ('{"ops":{"read":true}}', "the body is not as expected"),
    ('{"op_groups":{"stream":true}}', "the body is not as expected"),
    ('{"op_groups":{"stream":{"read":1}}}', "the body is not as expected"),
    ('{"ops":["read"],"streams":"a"}', "the body is not as expected"),
    ('{"ops":["read"],"streams":{"prefix":null}}', "streams has one of exact and prefix"),
    ('{"ops":["read"],"streams":{"suffix":"a"}}', "streams has one of exact and prefix"),
    ('{"ops":["read"],"streams":{"prefix":["a"]}}', "the body is not as expected"),
    ('{"ops":["read"],"streams":{"exact":"."}}', "streams has a name that cannot be"),
    ('{"ops":["read"],"basins":{"exact":"a"}}', "basins has a name that cannot be"),
    ('{"ops":["read"],"basins":{"prefix":"A"}}', "basins has a prefix that no name begins with"),
    ('{"ops":["read"],"basins":{"prefix":"' + "a" * 49 + '"}}', "basins has a prefix that no"),
    ('{"ops":["read"],"access_tokens":{"exact":".."}}', "access_tokens has a name that cannot"),
    ('{"ops":["read"],"streams":{"exact":"\\ud800"}}', "the body is not"),
    ('{"ops":' + "[" * 3_000 + "]" * 3_000 + "}", "the body is"),
    ('{"streams":' + '{"prefix":' * 3_000 + '"a"' + "}" * 3_000 + "}", "the body is"),
    ("null", "the body is not as expected"),
    ("[]", "the body is not as expected"),
]
"""Scopes as they are sent, and how the refusal begins."""


def test_impossible_scopes(guarded: Account) -> None:
    """Each is refused as malformed, by its own sentence, without effect: nothing is issued, and no
    version of the tokens passes by."""
    before = guarded.ask("GET", "/v1/access-tokens").body
    for scope, message in IMPOSSIBLE:
        body = f'{{"id":"impossible","scope":{scope}}}'.encode()
        answer = guarded.ask("POST", "/v1/access-tokens", body)
        assert (answer.status, answer.json["code"]) == (400, "bad_json"), (scope[:80], answer)
        assert answer.json["message"].startswith(message), (scope[:80], answer)
        assert answer.headers["svc-side-effects"] == "none"
    assert guarded.ask("GET", "/v1/access-tokens").body == before


def test_a_deep_chain_ends_as_one(guarded: Account) -> None:
    """24 tokens, each issued by the one before and a prefix deeper. Each is within the one above,
    whatever it asks for; where the prefixes together are no name's beginning any more the chain
    ends; and with its first token all are gone."""
    chain = [ROOT_SECRET]
    step = "p" * 20 + "/"
    for depth in range(24):
        scope = {
            **EVERYWHERE,
            "streams": {"prefix": step},
            "access_tokens": {"prefix": "deep-"},
            "ops": ["issue-access-token", "list-basins", *(["read"] if depth < 12 else [])],
        }
        _, secret = guarded.issue(scope, chain[-1], id=f"deep-{depth}", auto_prefix_streams=True)
        chain.append(secret)
    last = chain[-1]
    for wider, status, code in (
        ({"ops": ["read"]}, 403, "permission_denied"),
        ({"op_groups": {"account": {"read": True}}}, 403, "permission_denied"),
        ({"ops": ["list-basins"], "access_tokens": ALL}, 403, "permission_denied"),
        ({"ops": ["list-basins"], "streams": {"prefix": "q" * 9}}, 400, "invalid"),
    ):
        answer = guarded.ask(
            "POST", "/v1/access-tokens", {"id": "deep-x", "scope": wider}, last, svc_format="utf8"
        )
        assert (answer.status, answer.json["code"]) == (status, code), (wider, answer)
    outside = {"id": "other", "scope": {"ops": ["list-basins"]}}
    assert guarded.ask("POST", "/v1/access-tokens", outside, last).status == 403
    for secret in chain[1:]:
        assert guarded.ask("GET", "/v1/basins", None, secret).status == 200
    assert guarded.revoke("deep-0").status == 204
    for secret in chain[1:]:
        assert guarded.ask("GET", "/v1/basins", None, secret).status == 401
    page = guarded.ask("GET", "/v1/access-tokens?prefix=deep-").json
    assert page == {"access_tokens": [], "has_more": False}


def test_a_token_is_listed_as_it_was_asked_for(guarded: Account) -> None:
    """Scope, flag and expiry (nanoseconds, zone and all) come back as they were given; op_groups
    and ops are always there, missing sets are null, and the secret is not there."""
    expires = "2031-05-06T07:08:09.123456789+02:00"
    scope = {
        "basins": {"exact": "some-basin"},
        "streams": {"prefix": "é/"},
        "op_groups": {"stream": {"read": True}},
        "ops": ["trim", "list-basins", "trim"],
    }
    token_id, secret = guarded.issue(
        scope, id="é shown", auto_prefix_streams=True, expires_at=expires
    )
    assert secret and secret.isascii() and " " not in secret
    page = guarded.ask("GET", f"/v1/access-tokens?prefix={quote('é s')}").json
    none = {"read": False, "write": False}
    assert page == {
        "access_tokens": [
            {
                "id": token_id,
                "expires_at": expires,
                "auto_prefix_streams": True,
                "scope": {
                    "basins": {"exact": "some-basin"},
                    "streams": {"prefix": "é/"},
                    "access_tokens": None,
                    "op_groups": {
                        "account": none,
                        "basin": none,
                        "stream": {"read": True, "write": False},
                    },
                    "ops": ["trim", "list-basins"],
                },
            }
        ],
        "has_more": False,
    }
    assert guarded.revoke(quote(token_id)).status == 204
    page = guarded.ask("GET", f"/v1/access-tokens?prefix={quote('é s')}").json
    assert page["access_tokens"] == []


def test_a_new_token_works_and_is_listed_at_once(guarded: Account) -> None:
    """Without waiting, again and again; the id is taken until it is revoked, then free."""
    for _ in range(5):
        _, secret = guarded.issue({**EVERYWHERE, "ops": ["list-basins"]}, id="at-once")
        assert guarded.ask("GET", "/v1/basins", None, secret).status == 200
        listed = guarded.ask("GET", "/v1/access-tokens?prefix=at-once").json["access_tokens"]
        assert [token["id"] for token in listed] == ["at-once"]
        again = wanted(guarded, {"id": "at-once", "scope": READ})
        assert (again.status, again.json["code"]) == (409, "resource_already_exists")
        assert guarded.revoke("at-once").status == 204
        assert guarded.ask("GET", "/v1/basins", None, secret).status == 401
        gone = guarded.revoke("at-once")
        assert (gone.status, gone.json["code"]) == (404, "access_token_not_found")


def test_a_child_is_within_its_parent(guarded: Account) -> None:
    """More operations, wider sets, or an id outside: 403. A later expiry: invalid. Left out, the
    expiry is the parent's."""
    expires = "2032-01-01T00:00:00Z"
    scope = {
        "basins": {"prefix": "child-"},
        "streams": {"prefix": "a/"},
        "access_tokens": {"prefix": "kid-"},
        "ops": ["issue-access-token", "read"],
    }
    _, secret = guarded.issue(scope, expires_at=expires)

    def child(scope: dict[str, Any], **members: Any) -> Answer:
        body = {"id": "kid-1", "scope": scope, **members}
        return guarded.ask("POST", "/v1/access-tokens", body, secret)

    for wider in (
        {"ops": ["append"]},
        {"op_groups": {"stream": {"read": True}}},
        {"ops": ["read"], "basins": ALL},
        {"ops": ["read"], "streams": {"prefix": "a"}},
        {"ops": ["read"], "streams": {"exact": "b"}},
        {"ops": ["read"], "access_tokens": {"prefix": "kid"}},
    ):
        refused = child(wider)
        assert (refused.status, refused.json["code"]) == (403, "permission_denied"), wider
    assert child({"ops": ["read"]}, id="other").status == 403
    for moment in ("2032-01-01T00:00:01Z", "2001-01-01T00:00:00Z"):
        assert child({"ops": ["read"]}, expires_at=moment).status == 400
    assert child({"ops": ["read"], "streams": {"exact": "a/b"}}).status == 201
    listed = guarded.ask("GET", "/v1/access-tokens?prefix=kid-1").json["access_tokens"]
    assert listed[0]["expires_at"] == expires
    assert guarded.revoke("kid-1", secret).status == 403
    assert guarded.revoke("kid-1").status == 204


def test_the_root_token_is_listed_and_stays(guarded: Account) -> None:
    """It is a token among others, the first page of one holds exactly one, and it is replaced, not
    revoked."""
    page = guarded.ask("GET", "/v1/access-tokens?limit=1").json
    assert len(page["access_tokens"]) == 1
    listed = guarded.ask("GET", "/v1/access-tokens?prefix=root").json["access_tokens"]
    assert (listed[0]["id"], listed[0]["expires_at"]) == ("root", None)
    assert guarded.revoke("root").status == 403
    assert guarded.ask("GET", "/v1/basins").status == 200


def test_lists_are_cut_to_the_token(guarded: Account, basin: str) -> None:
    """Basins, streams and tokens outside the sets are not listed, whatever bounds are asked for;
    without a set the page is empty."""
    make(guarded, basin, "a/1", "a/2", "b/1")
    other = basin[:-1] + "z"
    assert guarded.ask("POST", "/v1/basins", {"basin": other}).status == 201
    ops = {"ops": ["list-basins", "list-streams", "list-access-tokens"]}
    scope = {
        "basins": {"exact": basin},
        "streams": {"prefix": "a/"},
        "access_tokens": {"exact": "cut-1"},
        **ops,
    }
    for name in ("cut-1", "cut-11"):
        secret = guarded.issue(scope, id=name)[1]

    def names(path: str, member: str, key: str = "name", **headers: str) -> list[str]:
        page = guarded.ask("GET", path, None, secret, **headers).json
        assert page["has_more"] is False
        return [each[key] for each in page[member]]

    assert names("/v1/basins", "basins") == [basin]
    assert names(f"/v1/basins?prefix={basin[:-1]}", "basins") == [basin]
    assert names(f"/v1/basins?start_after={basin}", "basins") == []
    assert names("/v1/basins?prefix=zzz", "basins") == []
    here = {"svc_basin": basin}
    assert names("/v1/streams", "streams", **here) == ["a/1", "a/2"]
    assert names("/v1/streams?prefix=a", "streams", **here) == ["a/1", "a/2"]
    assert names("/v1/streams?prefix=b", "streams", **here) == []
    assert names("/v1/streams?start_after=a%2F1", "streams", **here) == ["a/2"]
    assert names("/v1/streams?start_after=a%2F2", "streams", **here) == []
    assert names("/v1/access-tokens", "access_tokens", "id") == ["cut-1"]
    assert names("/v1/access-tokens?limit=1", "access_tokens", "id") == ["cut-1"]
    secret = guarded.issue({"basins": {"exact": basin}, **ops})[1]
    assert names("/v1/basins", "basins") == [basin]
    assert names("/v1/streams", "streams", **here) == []
    assert names("/v1/access-tokens", "access_tokens", "id") == []


# -- prefixes


def test_no_name_leads_out_of_a_prefix(guarded: Account, basin: str) -> None:
    """Dots, slashes, encodings once and twice, and the full name of a stream outside: whatever is
    said is one name below the prefix, and what it makes is there."""
    make(guarded, basin, "secret", "t/known")
    scope = {"basins": {"exact": basin}, "streams": {"prefix": "t/"}, "ops": EVERY_OP}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]
    here = {"svc_basin": basin}
    said = ["../secret", "..", "/secret", "%2e%2e/secret", "..%2fsecret", "secret", "t/known", "\1"]
    for name in said:
        raw = quote(name, safe="")
        answer = guarded.ask("GET", f"/v1/streams/{raw}", None, secret, **here)
        assert answer.status == (400 if name == ".." else 404), (name, answer)
        assert "secret" not in answer.json["message"]
    made = [name for name in said if name != ".."]
    for name in made:
        answer = guarded.ask("POST", "/v1/streams", {"stream": name}, secret, **here)
        assert (answer.status, answer.json["name"]) == (201, name)
    raw_once = guarded.ask("PUT", "/v1/streams/%252e%252e%252fsecret", {}, secret, **here)
    assert (raw_once.status, raw_once.json["name"]) == (201, "%2e%2e%2fsecret")
    empty = guarded.ask("POST", "/v1/streams", {"stream": ""}, secret, **here)
    assert (empty.status, empty.json["code"]) == (400, "bad_json")
    assert guarded.ask("GET", "/v1/streams/", None, secret, **here).status == 404
    assert guarded.ask("GET", "/v1/streams//records", None, secret, **here).status == 400

    page = guarded.ask("GET", "/v1/streams", None, secret, **here).json
    assert {each["name"] for each in page["streams"]} == {*made, "known", "%2e%2e%2fsecret"}
    full = guarded.ask("GET", "/v1/streams", **here).json
    outside = [each["name"] for each in full["streams"] if not each["name"].startswith("t/")]
    assert outside == ["secret"]
    assert {each["name"] for each in full["streams"]} >= {"t/../secret", "t/t/known", "t/known"}


def test_the_length_of_a_name_counts_with_its_prefix(guarded: Account, basin: str) -> None:
    """512 bytes in all; one more is refused with the code of the place where it was said."""
    scope = {"basins": {"exact": basin}, "streams": {"prefix": "t/"}, "ops": EVERY_OP}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]
    fits, too_long = "x" * 510, "x" * 511
    here = {"svc_basin": basin}
    assert guarded.ask("PUT", f"/v1/streams/{fits}", {}, secret, **here).status == 201
    refused = guarded.ask("PUT", f"/v1/streams/{too_long}", {}, secret, **here)
    assert (refused.status, refused.json["code"]) == (400, "bad_path")
    refused = guarded.ask("POST", "/v1/streams", {"stream": too_long}, secret, **here)
    assert (refused.status, refused.json["code"]) == (400, "bad_json")


def test_list_bounds_below_a_prefix(guarded: Account, basin: str) -> None:
    """Prefix and start_after are said in the caller's names, and nothing outside is reached."""
    make(guarded, basin, "s", "t/a", "t/b/1", "t/b/2", "u")
    scope = {"basins": {"exact": basin}, "streams": {"prefix": "t/"}, "ops": ["list-streams"]}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]

    def names(query: str) -> list[str]:
        page = guarded.ask("GET", f"/v1/streams{query}", None, secret, svc_basin=basin).json
        return [each["name"] for each in page["streams"]]

    assert names("") == ["a", "b/1", "b/2"]
    assert names("?prefix=b") == ["b/1", "b/2"]
    assert names("?prefix=b&start_after=b%2F1") == ["b/2"]
    assert names("?prefix=t") == names("?prefix=u") == names("?start_after=zzz") == []
    page = guarded.ask("GET", "/v1/streams?limit=1", None, secret, svc_basin=basin).json
    assert ([s["name"] for s in page["streams"]], page["has_more"]) == (["a"], True)


def test_prefixes_compose_and_lists_show_them_as_said(guarded: Account, basin: str) -> None:
    """A child's prefix stands below its parent's. The parent sees what it asked for, the root the
    whole, and of tokens that reach beyond it the parent sees only its own part."""
    scope = {**EVERYWHERE, "streams": {"prefix": "t/"}, "ops": EVERY_OP}
    _, parent = guarded.issue(scope, id="compose-parent", auto_prefix_streams=True)
    below = {**EVERYWHERE, "streams": {"prefix": "x/"}, "ops": ["create-stream", "append", "read"]}
    _, child = guarded.issue(below, parent, id="compose-child", auto_prefix_streams=True)
    outside = {**EVERYWHERE, "streams": {"exact": "secret"}, "ops": ["read"]}
    guarded.issue(outside, id="compose-outside")
    made = guarded.ask("POST", "/v1/streams", {"stream": "s"}, child, svc_basin=basin)
    assert (made.status, made.json["name"]) == (201, "s")
    full = guarded.ask("GET", "/v1/streams", svc_basin=basin).json["streams"]
    assert [each["name"] for each in full] == ["t/x/s"]

    def streams_of(secret: str) -> dict[str, Any]:
        page = guarded.ask("GET", "/v1/access-tokens?prefix=compose-", None, secret).json
        return {each["id"]: each["scope"]["streams"] for each in page["access_tokens"]}

    assert streams_of(parent) == {
        "compose-child": {"prefix": "x/"},
        "compose-outside": None,
        "compose-parent": {"prefix": ""},
    }
    assert streams_of(ROOT_SECRET)["compose-child"] == {"prefix": "t/x/"}


# -- what is open


def holder(account: Account, *ops: str, **members: Any) -> tuple[str, str]:
    return account.issue({**EVERYWHERE, "ops": list(ops)}, **members)


def _soon() -> str:
    return (datetime.now(UTC) + timedelta(seconds=4)).isoformat().replace("+00:00", "Z")


@pytest.fixture(params=["revoked", "expired"])
def ending(request: pytest.FixtureRequest, guarded: Account) -> Callable[..., tuple[str, Any]]:
    """A token for the operations it is called with, and how it ends."""

    def make_one(*ops: str) -> tuple[str, Any]:
        if request.param == "expired":
            return holder(guarded, *ops, expires_at=_soon())[1], lambda: None
        token_id, secret = holder(guarded, *ops)
        return secret, lambda: guarded.revoke(token_id)

    return make_one


def refusal_of(session: Session) -> int:
    """Status of the terminal frame at the end of a session."""
    frames = session.rest()
    assert frames and frames[-1].is_terminal, frames
    status, body = frames[-1].failure()
    assert b'"authn"' in body
    return status


@pytest.mark.parametrize("scheme", ["http", "h2c"])
def test_an_append_session_ends_with_its_token(
    guarded: Account, basin: str, ending: Any, scheme: str
) -> None:
    """It is acknowledged as long as the token is good, then told 401; nothing is appended later."""
    make(guarded, basin, "s")
    secret, end = ending("append")
    endpoint = guarded.endpoint.replace("http", scheme, 1)
    with append_session(endpoint, basin, "s", **bearer(secret)) as session:
        session.send(input_frame(b"one"))
        assert session.ack() == (0, 1)
        end()
        assert refusal_of(session) == 401
    tail = guarded.ask("GET", "/v1/streams/s/records/tail", svc_basin=basin).json["tail"]
    assert tail["seq_num"] == 1


def test_a_read_session_ends_with_its_token(guarded: Account, basin: str, ending: Any) -> None:
    make(guarded, basin, "s")
    secret, end = ending("read")
    with read_session(guarded.endpoint, basin, "s", "seq_num=0", **bearer(secret)) as session:
        assert session.batch()[0] == []
        end()
        assert refusal_of(session) == 401


def test_an_event_stream_ends_with_its_token(guarded: Account, basin: str, ending: Any) -> None:
    make(guarded, basin, "s")
    secret, end = ending("read")
    path = "/v1/streams/s/records?seq_num=0"
    with EventStream(guarded.endpoint, basin, path, bearer(secret)) as events:
        assert next(iter(events)).name == "ping"
        end()
        found = list(events)
        assert found[-1].name == "error"
        assert found[-1].json["code"] == "authn"


def test_a_long_poll_ends_with_its_token(guarded: Account, basin: str, ending: Any) -> None:
    """60 s are asked for; the answer comes when the token is no good any more."""
    make(guarded, basin, "s")
    secret, end = ending("read")
    answers: list[Answer] = []

    def poll() -> None:
        with Client(guarded.endpoint) as client:
            headers = {"svc-basin": basin, **bearer(secret)}
            path = "/v1/streams/s/records?seq_num=0&wait=60"
            # should the token end first, this is a 401 just as well
            answers.append(client.get(path, headers))

    thread = threading.Thread(target=poll)
    thread.start()
    waiting = b'svc_http_requests_in_flight{route="/v1/streams/{stream}/records"} 1.0'
    guarded.until(lambda: waiting in guarded.ask("GET", "/metrics").body or not thread.is_alive())
    end()
    thread.join(30)
    assert [(answer.status, answer.json["code"]) for answer in answers] == [(401, "authn")]


def command(kind: bytes, body: bytes) -> bytes:
    message = pb.AppendInput()
    record = message.records.add(body=body)
    record.headers.add(name=b"", value=kind)
    return encode_frame(message.SerializeToString())


def test_each_frame_of_a_session_needs_its_own_operation(guarded: Account, basin: str) -> None:
    """A session may append data; the fence in its third frame is refused with 403, and what came
    before it is acknowledged."""
    make(guarded, basin, "s")
    _, secret = holder(guarded, "append", "trim")
    with append_session(guarded.endpoint, basin, "s", **bearer(secret)) as session:
        session.send(input_frame(b"one"), command(b"trim", bytes(8)), command(b"fence", b"x"))
        session.send(input_frame(b"never"))
        assert session.ack() == (0, 1)
        assert session.ack() == (1, 2)
        frames = session.rest()
        assert [frame.is_terminal for frame in frames] == [True]
        status, body = frames[0].failure()
        assert (status, b"permission_denied" in body) == (403, True)
    tail = guarded.ask("GET", "/v1/streams/s/records/tail", svc_basin=basin).json["tail"]
    assert tail["seq_num"] == 2


def test_auto_created_streams_need_the_data_operation_only(guarded: Account, basin: str) -> None:
    """Appending makes the stream below the prefix, without `create-stream`; outside the set nothing
    is made."""
    patch = {"create_stream_on_append": True}
    assert guarded.ask("PATCH", f"/v1/basins/{basin}", patch).status == 200
    scope = {"basins": {"exact": basin}, "streams": {"prefix": "t/"}, "ops": ["append"]}
    record = {"records": [{"body": b64(b"x")}]}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]
    answer = guarded.ask("POST", "/v1/streams/new/records", record, secret, svc_basin=basin)
    assert answer.status == 200, answer
    plain = guarded.issue(scope)[1]
    answer = guarded.ask("POST", "/v1/streams/u/records", record, plain, svc_basin=basin)
    assert answer.status == 403
    full = guarded.ask("GET", "/v1/streams", svc_basin=basin).json["streams"]
    assert [each["name"] for each in full] == ["t/new"]


# -- secrets


def test_no_secret_is_kept_anywhere(guarded: Account) -> None:
    """The text and the bytes of secrets that were issued, used, refused and revoked are in no file
    that the server writes, in no metric and in no answer."""
    canaries = [guarded.issue(READ)[1] for _ in range(3)]
    token_id, revoked = guarded.issue(READ)
    assert guarded.revoke(token_id).status == 204
    canaries += [revoked, ROOT_SECRET]
    seen = b""
    for secret in canaries:
        for path in ("/v1/basins", "/v1/nothing", "/v1/streams?limit=x"):
            seen += guarded.ask("GET", path, None, secret).body
        mangled = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        seen += guarded.ask("GET", "/v1/basins", None, mangled).body
    seen += guarded.ask("GET", "/metrics").body + guarded.ask("GET", "/v1/access-tokens").body
    assert len(seen) > 1_000
    needles = [secret.encode() for secret in canaries]
    needles += [base64.urlsafe_b64decode(secret[5:48] + "=") for secret in canaries]
    files: list[Path] = []
    for attempt in range(10):
        files = [path for path in guarded.directory.rglob("*") if path.is_file()]
        try:
            for file in files:
                if file.name == "root-token":  # the operator's own
                    continue
                data = file.read_bytes()
                assert not [needle for needle in needles if needle in data], file
            break
        except FileNotFoundError:  # a compaction has put it elsewhere: all are looked at again
            assert attempt < 9
    assert not [needle for needle in needles if needle in seen]
    assert any(path.parent.name == "wal" for path in files)


def test_two_authorizations_are_none(guarded: Account) -> None:
    """Twice the header is refused, whatever it holds."""
    raw = (
        f"GET /v1/basins HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ROOT_SECRET}\r\n"
        f"authorization: Bearer {ROOT_SECRET}\r\nconnection: close\r\n\r\n"
    )
    answer = raw_exchange(guarded.endpoint, raw.encode())
    assert answer.split(b" ", 2)[1] in (b"400", b"401"), answer


@pytest.mark.parametrize("expires", ["9999-12-31T23:59:59Z", "2262-04-12T00:00:00.000000001Z"])
def test_a_token_may_be_for_ever(guarded: Account, expires: str) -> None:
    """Everybody's "never", and the first days that 64 bits of nanoseconds do not reach: taken, and
    listed as given; a child without an expiry has it too; both work."""
    token_id, secret = guarded.issue(FOR_EVER, expires_at=expires)
    child_id, child = guarded.issue(FOR_EVER, secret)
    listed = {
        token["id"]: token["expires_at"]
        for token in guarded.ask("GET", "/v1/access-tokens?limit=1000").json["access_tokens"]
    }
    assert listed[token_id] == listed[child_id] == expires
    guarded.until(lambda: guarded.ask("GET", "/v1/basins", secret=child).status == 200)
    later = {"id": "too-late", "scope": FOR_EVER, "expires_at": "9999-12-31T23:59:59.5Z"}
    assert guarded.ask("POST", "/v1/access-tokens", later, secret).status == 400


@pytest.mark.parametrize("agent", ["curl/8", "s2-cli/0.1"])
@pytest.mark.parametrize("expires", ["0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "never"])
def test_a_date_outside_the_years_is_refused_with_the_range(
    guarded: Account, expires: str, agent: str
) -> None:
    """In both dialects, as not well-formed."""
    body = {"id": "no-date", "scope": FOR_EVER, "expires_at": expires}
    answer = guarded.ask("POST", "/v1/access-tokens", body, user_agent=agent)
    assert answer.status == 400
    assert "years 1 to 9999" in answer.json["message"]


def test_a_date_long_ago_is_in_the_past(guarded: Account) -> None:
    """The first second of year 1 is a date; what it says is refused, not how."""
    body = {"id": "ago", "scope": FOR_EVER, "expires_at": "0001-01-01T00:00:00Z"}
    assert guarded.ask("POST", "/v1/access-tokens", body, user_agent="s2-cli/0.1").status == 422
    answer = guarded.ask("POST", "/v1/access-tokens", body)
    assert answer.status == 400
    assert "past" in answer.json["message"]
