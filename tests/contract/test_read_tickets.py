"""Read tickets on the wire: for whom, for what, and until when.

Rules: contract 12.9, 12.10, 12.11 and 12.12.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.contract.access import ALL, EVERY_OP, EVERYWHERE, ROOT_SECRET, Account
from tests.contract.client import Answer, Client, EventStream, b64
from tests.contract.conftest import Server
from tests.contract.test_authorization_matrix import ROUTES

_NUMBERS = itertools.count()
READ = {**EVERYWHERE, "ops": ["read", "check-tail"]}
PAGE = {"origin": "https://page.example"}


@pytest.fixture
def basin(guarded: Account) -> str:
    """With the streams `a/1`, `a/2` and `b`, a record in each."""
    name = f"tickets-{next(_NUMBERS):05}"
    assert guarded.ask("POST", "/v1/basins", {"basin": name}).status == 201
    for stream in ("a/1", "a/2", "b"):
        made = guarded.ask("POST", "/v1/streams", {"stream": stream}, svc_basin=name)
        assert made.status == 201
        body = {"records": [{"body": b64(f"in {stream}")}]}
        appended = guarded.ask("POST", records(stream), body, svc_basin=name)
        assert appended.status == 200
    return name


def records(stream: str) -> str:
    return f"/v1/streams/{stream.replace('/', '%2F')}/records"


def issued(
    account: Account,
    basin: str,
    streams: dict[str, str],
    secret: str = ROOT_SECRET,
    **members: Any,
) -> str:
    wanted = {"basin": basin, "streams": streams, **members}
    answer = account.ask("POST", "/v1/read-tickets", wanted, secret)
    assert answer.status == 201, answer
    ticket: str = answer.json["read_ticket"]
    return ticket


def read(account: Account, basin: str, stream: str, ticket: str, **headers: str) -> Answer:
    """One record from the first on, by a client that shows nothing but the ticket."""
    path = f"{records(stream)}?seq_num=0&count=1&format=utf8&ticket={ticket}"
    return account.ask("GET", path, None, None, **{"svc_basin": basin, **headers})


def is_refused(answer: Answer, why: str) -> bool:
    told = answer.json
    return (answer.status, told["code"]) == (401, "authn") and why in told["message"]


# -- what it is good for


def test_a_ticket_reads_in_every_way_and_says_until_when(guarded: Account, basin: str) -> None:
    """In both dialects and both forms of path, whole, as events, and the tail; nothing is kept."""
    answer = guarded.ask(
        "POST", "/v1/read-tickets", {"basin": basin, "streams": {"exact": "b"}}, s2_strict="true"
    )
    assert answer.status == 201
    assert set(answer.json) == {"read_ticket", "expires_at"}
    assert answer.json["expires_at"].endswith("Z")
    ticket = answer.json["read_ticket"]
    for named in ("svc_basin", "s2_basin"):
        found = guarded.ask(
            "GET", f"{records('b')}?seq_num=0&count=1&format=utf8&ticket={ticket}", None, None,
            **{named: basin},
        )  # fmt: skip
        assert found.json["records"][0]["body"] == "in b"
        tail = guarded.ask(
            "GET", f"{records('b')}/tail?ticket={ticket}", None, None, **{named: basin}
        )
        assert tail.json["tail"]["seq_num"] == 1
    below = f"/v1/basins/{basin}/streams/b"
    assert guarded.ask("GET", f"{below}/tail?ticket={ticket}", None, None).status == 200
    path = f"{below}/read?seq_num=0&format=utf8&ticket={ticket}"
    assert guarded.ask("HEAD", path, None, None).status == 200
    with EventStream(guarded.endpoint, basin, path, PAGE) as events:
        assert events.response.headers["access-control-allow-origin"] == PAGE["origin"]
        assert next(iter(events)).json["records"][0]["body"] == "in b"


def test_a_ticket_opens_nothing_but_reads_and_tails(guarded: Account, basin: str) -> None:
    """Whatever its token may do: every other route, and every path that there is not, is 401."""
    everything = guarded.issue({**EVERYWHERE, "ops": EVERY_OP})[1]
    ticket = issued(guarded, basin, ALL, everything)
    tried = 0
    for route in ROUTES:
        if route.needs in (("read",), ("check-tail",)) and route.method == "GET":
            continue
        mark = "&" if "?" in route.path else "?"
        answer = guarded.ask(
            route.method,
            f"{route.path}{mark}ticket={ticket}",
            route.body,
            None,
            **dict(route.named),
        )
        assert is_refused(answer, "a read ticket is good for reading"), route.name
        tried += 1
    assert tried > 20
    assert guarded.ask("GET", f"/v1/nothing?ticket={ticket}", None, None).status == 401
    body = {"records": [{"body": ""}]}
    for path in (records("b"), f"/v1/basins/{basin}/streams/b/append"):
        appended = guarded.ask("POST", f"{path}?ticket={ticket}", body, None, svc_basin=basin)
        assert is_refused(appended, "a read ticket is good for reading")
    tail = guarded.ask("GET", f"{records('b')}/tail", svc_basin=basin)
    assert tail.json["tail"]["seq_num"] == 1


def test_a_ticket_is_for_its_stream_or_prefix_alone(guarded: Account, basin: str) -> None:
    """Of another stream, of another basin: 401, which says so, whether or not there is one."""
    exact = issued(guarded, basin, {"exact": "a/1"})
    below = issued(guarded, basin, {"prefix": "a/"})
    assert read(guarded, basin, "a/1", exact).status == 200
    assert read(guarded, basin, "a/1", below).status == 200
    assert read(guarded, basin, "a/2", below).status == 200
    elsewhere = "the read ticket is for another stream"
    for stream in ("a/2", "b", "a", "none"):
        assert is_refused(read(guarded, basin, stream, exact), elsewhere)
    assert is_refused(read(guarded, basin, "b", below), elsewhere)
    assert is_refused(read(guarded, "another-basin", "a/1", exact), elsewhere)


def test_a_ticket_makes_no_stream(guarded: Account, basin: str) -> None:
    """Though the basin makes streams that are read, and its token would have made it."""
    config = {"create_stream_on_read": True}
    assert guarded.ask("PATCH", f"/v1/basins/{basin}", config).status == 200
    ticket = issued(guarded, basin, ALL)
    for path in (records("new"), f"{records('new')}/tail"):
        answer = guarded.ask("GET", f"{path}?ticket={ticket}", None, None, svc_basin=basin)
        assert (answer.status, answer.json["code"]) == (404, "stream_not_found")
    assert guarded.ask("GET", "/v1/streams/new", svc_basin=basin).status == 404


# -- never more than its token


def test_nobody_issues_a_ticket_for_more_than_they_may_read(guarded: Account, basin: str) -> None:
    """403, with what was wanted; below its own set a token may."""
    secret = guarded.issue({**READ, "basins": {"exact": basin}, "streams": {"prefix": "a/"}})[1]
    blind = guarded.issue({**EVERYWHERE, "ops": ["append", "check-tail"]})[1]
    for streams in ({"exact": "b"}, {"prefix": ""}, {"prefix": "a"}, {"prefix": "b"}):
        wanted = {"basin": basin, "streams": streams}
        refused = guarded.ask("POST", "/v1/read-tickets", wanted, secret)
        assert (refused.status, refused.json["code"]) == (403, "permission_denied")
    for by, name in ((secret, "other-basin"), (blind, basin)):
        wanted = {"basin": name, "streams": {"exact": "a/1"}}
        assert guarded.ask("POST", "/v1/read-tickets", wanted, by).status == 403
    assert (
        read(guarded, basin, "a/2", issued(guarded, basin, {"prefix": "a/"}, secret)).status == 200
    )


def test_a_ticket_has_the_operations_and_the_prefix_of_its_token(
    guarded: Account, basin: str
) -> None:
    """Without `check-tail` no tail; names below the prefix are said as the token's holder says."""
    scope = {**EVERYWHERE, "streams": {"prefix": "a/"}, "ops": ["read"]}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]
    ticket = issued(guarded, basin, {"exact": "1"}, secret)
    assert read(guarded, basin, "1", ticket).json["records"][0]["body"] == "in a/1"
    assert is_refused(read(guarded, basin, "2", ticket), "for another stream")
    tail = guarded.ask("GET", f"{records('1')}/tail?ticket={ticket}", None, None, svc_basin=basin)
    assert (tail.status, tail.json["code"]) == (403, "permission_denied")


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"basin": "X"}, "bad_json"),
        ({"streams": {}}, "bad_json"),
        ({"streams": {"exact": ""}}, "bad_json"),
        ({"streams": {"exact": "a", "prefix": "a"}}, "bad_json"),
        ({"expires_in_secs": "60"}, "bad_json"),
        ({"expires_in_secs": 0}, "invalid"),
        ({"expires_in_secs": 3601}, "invalid"),
    ],
)
def test_requests_without_sense_are_refused(
    guarded: Account, basin: str, members: dict[str, Any], code: str
) -> None:
    """At most an hour, one basin, one set."""
    wanted = {"basin": basin, "streams": {"exact": "b"}, **members}
    answer = guarded.ask("POST", "/v1/read-tickets", wanted)
    assert (answer.status, answer.json["code"]) == (400, code)


# -- until when


def test_a_ticket_ends_and_says_so_and_what_it_opened_ends(guarded: Account, basin: str) -> None:
    """The event stream is told 401; the ticket alone is over, not its token."""
    ticket = issued(guarded, basin, {"exact": "b"}, expires_in_secs=1)
    path = f"{records('b')}?seq_num=0&ticket={ticket}"
    with EventStream(guarded.endpoint, basin, path) as events:
        found = list(events)
    assert found[-1].name == "error"
    assert found[-1].json["code"] == "authn"
    assert found[-1].json["message"] == "the read ticket has expired"
    assert is_refused(read(guarded, basin, "b", ticket), "the read ticket has expired")
    assert guarded.ask("GET", "/v1/basins").status == 200


def test_a_ticket_dies_with_its_token_at_once(guarded: Account, basin: str) -> None:
    """From the 204 on it opens nothing, with the token above as well; what it opened ends, and a
    new token of the same id brings it back to nobody."""
    for ends in ("own", "parent"):
        scope = {**EVERYWHERE, "ops": ["read", "issue-access-token"]}
        parent_id, parent = guarded.issue(scope)
        own_id, own = guarded.issue(READ | {"ops": ["read"]}, parent)
        ticket = issued(guarded, basin, {"exact": "b"}, own)
        path = f"{records('b')}?seq_num=0&ticket={ticket}"
        with EventStream(guarded.endpoint, basin, path) as events:
            assert next(iter(events)).name == "batch"
            assert guarded.revoke(own_id if ends == "own" else parent_id).status == 204
            found = list(events)
        assert found[-1].json["code"] == "authn"
        why = "the access token of the read ticket is unknown or revoked"
        assert is_refused(read(guarded, basin, "b", ticket), why)
        guarded.issue(READ | {"ops": ["read"]}, id=own_id)
        assert is_refused(read(guarded, basin, "b", ticket), why)


def test_a_ticket_outlives_its_gateway(tmp_path: Path) -> None:
    """It is kept nowhere, and any gateway of the cluster opens it."""
    server = Server(tmp_path, 10.0, ROOT_SECRET)
    try:
        with Account(f"http://127.0.0.1:{server.port}", tmp_path) as account:
            assert account.ask("POST", "/v1/basins", {"basin": "outliving"}).status == 201
            ticket = issued(account, "outliving", ALL)
        server.restart()
        with Account(f"http://127.0.0.1:{server.port}", tmp_path) as account:
            assert read(account, "outliving", "none", ticket).status == 404
            assert is_refused(read(account, "outliving", "x", ticket[:-1] + "_"), "tampered with")
    finally:
        server.stop()


# -- tampering


def test_a_ticket_that_was_tampered_with_is_401_and_says_so(guarded: Account, basin: str) -> None:
    """With every character another once. `tests/unit/gateway/test_read_ticket.py` forges."""
    ticket = issued(guarded, basin, {"exact": "b"})
    for place in range(0, len(ticket), 7):
        other = "A" if ticket[place] != "A" else "B"
        changed = ticket[:place] + other + ticket[place + 1 :]
        answer = read(guarded, basin, "b", changed)
        if answer.status == 429:  # guesses of one address are not answered without end
            assert answer.headers["retry-after-ms"]
            continue
        assert is_refused(answer, "the read ticket was tampered with"), place
        assert "tampered with" in answer.headers["www-authenticate"]
    assert read(guarded, basin, "b", ticket).status == 200


def test_a_ticket_beside_a_token_is_neither(guarded: Account, basin: str) -> None:
    """Which of them is meant is not guessed; a parameter that is given twice shows nothing."""
    ticket = issued(guarded, basin, {"exact": "b"})
    both = read(guarded, basin, "b", ticket, authorization=f"Bearer {ROOT_SECRET}")
    assert is_refused(both, "not both")
    twice = "the read ticket in the query shows nothing: the parameter `ticket` is given twice"
    assert is_refused(read(guarded, basin, "b", f"{ticket}&ticket={ticket}"), twice)
    headers = {"s2_basin": basin}
    path = f"{records('b')}?ticket={ticket}&seq_num=0&seq_num=1"
    other = guarded.ask("GET", path, None, None, **headers)
    assert is_refused(other, "shows nothing: the parameter `seq_num` is given twice")
    for odd, shown in (("a%22", "a'"), ("a%5C", "a?"), ("%F0%9F%98%80", "?")):
        path = f"{records('b')}?ticket={ticket}&{odd}=1&{odd}=2"
        other = guarded.ask("GET", path, None, None, **headers)
        assert is_refused(other, "shows nothing: the parameter"), other
        said = f"the parameter `{shown}` is given twice"
        assert said in other.headers["www-authenticate"], "a quoted string of ASCII"
    named = guarded.ask("GET", f"{path}&ticket={ticket}", None, ROOT_SECRET, **headers)
    assert (named.status, named.json["code"]) == (400, "bad_query")


def test_without_authentication_there_is_nothing_to_issue(
    client: Client, shared_basin: str
) -> None:
    """The refusal says what to do instead; a ticket in the query is looked at by nobody."""
    wanted = {"basin": shared_basin, "streams": {"exact": "s"}}
    refused = client.post("/v1/read-tickets", wanted)
    assert (refused.status, refused.json["code"]) == (400, "invalid")
    assert "without a ticket" in refused.json["message"]
    assert client.post("/v1/read-tickets", wanted, {"s2-basin": shared_basin}).status == 422
    assert client.get("/v1/streams?ticket=none", {"svc-basin": shared_basin}).status == 200
