"""Every route with every operation and every kind of token, generated from a table of the test's
own: who is let in, who is told 401 and who 403.

Rules: contract 12.1, 12.3, 12.7 and 12.8.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from svc_cluster.gateway.endpoints.table import ENDPOINTS, ROUTER
from svc_cluster.model.access_secret import secret_text
from tests.contract.access import EVERY_OP, EVERYWHERE, Account
from tests.contract.client import Answer

BASIN = "matrix-basin"
GONE = "matrix-nowhere"
STREAM = "s"
MISSING = "t"
SESSION = {"content_type": "svcs/proto"}


def _records(*headers: tuple[str, str], body: bytes = b"") -> dict[str, Any]:
    encoded = [[base64.b64encode(part.encode()).decode() for part in pair] for pair in headers]
    record: dict[str, Any] = {"headers": encoded} if encoded else {}
    return {"records": [{**record, "body": base64.b64encode(body).decode()}]}


@dataclass(frozen=True)
class Route:
    """A request that changes nothing whoever sends it, what it needs, and how it is answered when
    it is allowed."""

    name: str
    method: str
    path: str
    needs: tuple[str, ...]
    allowed: int
    body: Any = None
    names: str = ""
    """Of `basin`, `stream` and `token`: which sets must hold what it names. `account`: the set of
    basins must hold every name."""
    named: tuple[tuple[str, str], ...] = ()
    missing_is: int | None = None

    def ask(self, account: Account, secret: str | None, **more: str) -> Answer:
        headers = {**dict(self.named), **more}
        return account.ask(self.method, self.path, self.body, secret, **headers)


B = (("svc_basin", BASIN),)
R = f"/v1/streams/{MISSING}/records"
T = "start=0&end=3600"
ROUTES = [
    Route("list-basins", "GET", "/v1/basins", ("list-basins",), 200),
    Route("create-basin", "POST", "/v1/basins", ("create-basin",), 409, {"basin": BASIN}, "basin"),
    Route(
        "ensure-basin",
        "PUT",
        f"/v1/basins/{BASIN}",
        ("create-basin", "reconfigure-basin"),
        200,
        {},
        "basin",
    ),
    Route("get-basin", "GET", f"/v1/basins/{BASIN}", ("get-basin-config",), 200, None, "basin"),
    Route("no-basin", "GET", f"/v1/basins/{GONE}", ("get-basin-config",), 404, None, "basin"),
    Route("patch-basin", "PATCH", f"/v1/basins/{BASIN}", ("reconfigure-basin",), 200, {}, "basin"),
    Route("delete-basin", "DELETE", f"/v1/basins/{GONE}", ("delete-basin",), 404, None, "basin"),
    Route("list-streams", "GET", "/v1/streams", ("list-streams",), 200, None, "basin", B),
    Route(
        "create-stream",
        "POST",
        "/v1/streams",
        ("create-stream",),
        409,
        {"stream": STREAM},
        "basin stream",
        B,
    ),
    Route(
        "ensure-stream",
        "PUT",
        f"/v1/streams/{STREAM}",
        ("create-stream", "reconfigure-stream"),
        200,
        {},
        "basin stream",
        B,
    ),
    Route(
        "get-stream",
        "GET",
        f"/v1/streams/{STREAM}",
        ("get-stream-config",),
        200,
        None,
        "basin stream",
        B,
    ),
    Route(
        "patch-stream",
        "PATCH",
        f"/v1/streams/{STREAM}",
        ("reconfigure-stream",),
        200,
        {},
        "basin stream",
        B,
    ),
    Route(
        "delete-stream",
        "DELETE",
        f"/v1/streams/{MISSING}",
        ("delete-stream",),
        404,
        None,
        "basin stream",
        B,
    ),
    Route(
        "seed-create-stream",
        "POST",
        f"/v1/basins/{BASIN}/streams",
        ("create-stream",),
        409,
        {"stream": STREAM},
        "basin stream",
    ),
    Route(
        "seed-list-streams",
        "GET",
        f"/v1/basins/{BASIN}/streams",
        ("list-streams",),
        200,
        None,
        "basin",
    ),
    Route(
        "seed-ensure-stream",
        "PUT",
        f"/v1/basins/{BASIN}/streams/{STREAM}",
        ("create-stream", "reconfigure-stream"),
        200,
        {},
        "basin stream",
    ),
    Route(
        "seed-get-stream",
        "GET",
        f"/v1/basins/{BASIN}/streams/{STREAM}",
        ("get-stream-config",),
        200,
        None,
        "basin stream",
    ),
    Route(
        "seed-patch-stream",
        "PATCH",
        f"/v1/basins/{BASIN}/streams/{STREAM}",
        ("reconfigure-stream",),
        200,
        {},
        "basin stream",
    ),
    Route(
        "seed-tail",
        "GET",
        f"/v1/basins/{BASIN}/streams/{MISSING}/tail",
        ("check-tail",),
        404,
        None,
        "basin stream",
    ),
    Route(
        "seed-delete-stream",
        "DELETE",
        f"/v1/basins/{BASIN}/streams/{MISSING}",
        ("delete-stream",),
        404,
        None,
        "basin stream",
    ),
    Route("append", "POST", R, ("append",), 404, _records(body=b"x"), "basin stream", B),
    Route("fence", "POST", R, ("fence",), 404, _records(("", "fence")), "basin stream", B),
    Route(
        "trim",
        "POST",
        R,
        ("trim",),
        404,
        _records(("", "trim"), body=bytes(8)),
        "basin stream",
        B,
    ),
    Route(
        "append-and-fence",
        "POST",
        R,
        ("append", "fence"),
        404,
        {"records": _records(("", "fence"))["records"] + _records(body=b"x")["records"]},
        "basin stream",
        B,
    ),
    Route(
        "seed-append",
        "POST",
        f"/v1/basins/{BASIN}/streams/{MISSING}/append",
        ("append",),
        404,
        _records(body=b"x"),
        "basin stream",
    ),
    Route("read", "GET", R, ("read",), 404, None, "basin stream", B),
    Route(
        "read-events",
        "GET",
        R,
        ("read",),
        404,
        None,
        "basin stream",
        (*B, ("accept", "text/event-stream")),
    ),
    Route(
        "read-session",
        "GET",
        R,
        ("read",),
        404,
        None,
        "basin stream",
        (*B, ("content_type", "svcs/proto")),
    ),
    Route("long-poll", "GET", R + "?wait=5", ("read",), 404, None, "basin stream", B),
    Route(
        "seed-read",
        "GET",
        f"/v1/basins/{BASIN}/streams/{MISSING}/read",
        ("read",),
        404,
        None,
        "basin stream",
    ),
    Route("tail", "GET", R + "/tail", ("check-tail",), 404, None, "basin stream", B),
    Route("list-tokens", "GET", "/v1/access-tokens", ("list-access-tokens",), 200),
    Route(
        "issue-token",
        "POST",
        "/v1/access-tokens",
        ("issue-access-token",),
        409,
        {"id": "root", "scope": {"ops": ["issue-access-token"]}},
        "token",
    ),
    Route(
        "issue-ticket",
        "POST",
        "/v1/read-tickets",
        ("read",),
        201,
        {"basin": BASIN, "streams": {"exact": STREAM}},
        "basin stream",
    ),
    Route(
        "revoke-token",
        "DELETE",
        "/v1/access-tokens/nobody",
        ("revoke-access-token",),
        404,
        None,
        "token",
    ),
    Route(
        "account-metrics",
        "GET",
        f"/v1/metrics?set=account-ops&{T}",
        ("account-metrics",),
        200,
        None,
        "account",
    ),
    Route("actives", "GET", f"/v1/metrics?set=active-basins&{T}", ("account-metrics",), 200),
    Route(
        "basin-metrics",
        "GET",
        f"/v1/metrics/{BASIN}?set=basin-ops&{T}",
        ("basin-metrics",),
        200,
        None,
        "basin",
    ),
    Route(
        "no-basin-metrics",
        "GET",
        f"/v1/metrics/{GONE}?set=storage&{T}",
        ("basin-metrics",),
        200,
        None,
        "basin",
    ),
    Route(
        "stream-metrics",
        "GET",
        f"/v1/metrics/{BASIN}/{STREAM}?set=storage&{T}",
        ("stream-metrics",),
        200,
        None,
        "basin stream",
    ),
    Route(
        "no-stream-metrics",
        "GET",
        f"/v1/metrics/{BASIN}/{MISSING}?set=storage&{T}",
        ("stream-metrics",),
        200,
        None,
        "basin stream",
    ),
    Route("locations", "GET", "/v1/locations", ("list-locations",), 200),
    Route("location", "GET", "/v1/locations/default", ("get-default-location",), 200),
    Route(
        "choose-location",
        "PUT",
        "/v1/locations/default",
        ("set-default-location",),
        200,
        "local",
        "account",
    ),
    Route(
        "cluster",
        "GET",
        "/v1/cluster",
        ("list-basins", "account-metrics"),
        200,
        None,
        "account",
    ),
    Route(
        "activity",
        "GET",
        "/v1/activity",
        ("list-basins", "list-access-tokens", "account-metrics"),
        200,
        None,
        "everything",
    ),
]
SESSION_ROUTE = Route(
    "append-session",
    "POST",
    R,
    (),
    404,
    b"",
    "basin stream",
    (*B, ("content_type", "svcs/proto")),
)
"""Opened by whoever may append anything; each frame is judged by itself."""

BY_NAME = {route.name: route for route in ROUTES}


@pytest.fixture(scope="module")
def account(guarded: Account) -> Account:
    assert guarded.ask("POST", "/v1/basins", {"basin": BASIN}).status == 201
    answer = guarded.ask("POST", "/v1/streams", {"stream": STREAM}, svc_basin=BASIN)
    assert answer.status == 201
    assert (
        guarded.ask("POST", "/v1/streams", {"stream": "p/" + STREAM}, svc_basin=BASIN).status == 201
    )
    return guarded


@pytest.fixture(scope="module")
def by_ops(account: Account) -> dict[tuple[str, ...], str]:
    """A token for each single operation, and for each set that a route needs."""
    wanted = {(op,) for op in EVERY_OP} | {route.needs for route in ROUTES}
    return {ops: account.issue({**EVERYWHERE, "ops": list(ops)})[1] for ops in sorted(wanted)}


def _is_denied(answer: Answer, route: Route) -> None:
    assert answer.status == 403, (route.name, answer)
    body = answer.json
    assert (body["code"], body["error"]) == ("permission_denied", "forbidden")
    assert body["may_have_taken_effect"] is False
    assert body["message"].startswith("the access token does not allow `")
    said = f"{route.path} {route.body}"
    for name in (GONE, "nobody"):
        assert name in said or name not in body["message"], "nothing is told that was not named"


def _is_unknown(answer: Answer, route: Route) -> None:
    assert answer.status == 401, (route.name, answer)
    body = answer.json
    assert (body["code"], body["error"]) == ("authn", "unauthorized")
    assert not any(name in answer.body.decode() for name in (BASIN, GONE, "nobody"))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_operations(account: Account, by_ops: dict[tuple[str, ...], str], route: Route) -> None:
    """Whoever has what the route needs gets its answer; whoever has anything else, 403."""
    for ops, secret in by_ops.items():
        answer = route.ask(account, secret)
        if set(route.needs) <= set(ops):
            assert answer.status == route.allowed, (route.name, ops, answer)
        else:
            _is_denied(answer, route)


def test_an_append_session_is_opened_by_whoever_may_append_anything(
    account: Account, by_ops: dict[tuple[str, ...], str]
) -> None:
    """Data, fence or trim: each opens one (here on a stream that is missing); nothing else does."""
    for ops, secret in by_ops.items():
        answer = SESSION_ROUTE.ask(account, secret)
        if set(ops) & {"append", "fence", "trim"}:
            assert answer.status == 404, (ops, answer)
        else:
            _is_denied(answer, SESSION_ROUTE)


def _kinds(account: Account) -> Iterator[tuple[str, str | None, dict[str, str]]]:
    """Tokens that nobody is let in with."""
    soon = (datetime.now(UTC) + timedelta(seconds=3)).isoformat().replace("+00:00", "Z")
    everything = {**EVERYWHERE, "ops": EVERY_OP}
    expired = account.issue(everything, expires_at=soon)[1]
    revoked_id, revoked = account.issue(everything)
    parent_id, parent = account.issue(everything)
    _, child = account.issue(everything, parent)
    _, grandchild = account.issue(everything, child)
    assert account.revoke(revoked_id).status == 204
    assert account.revoke(parent_id).status == 204
    account.until(lambda: account.ask("GET", "/v1/basins", None, expired).status == 401)
    yield "none", None, {}
    yield "garbage", "garbage", {}
    yield "never issued", secret_text(b"\x07" * 32), {}
    yield "not bearer", None, {"authorization": "Basic cm9vdDpyb290"}
    yield "bearer of nothing", None, {"authorization": "Bearer"}
    yield "not ascii", None, {"authorization": "Bearer \xe9"}
    yield "expired", expired, {}
    yield "revoked", revoked, {}
    yield "parent revoked", parent, {}
    yield "child of the revoked", child, {}
    yield "grandchild of the revoked", grandchild, {}


def test_tokens_that_are_no_good(account: Account) -> None:
    """401 on every route, also where there is nothing: no path is told from another."""
    nowhere = Route("nowhere", "GET", "/v1/nothing", (), 404)
    method = Route("method", "DELETE", "/v1/streams", (), 405)
    bad_name = Route("bad name", "GET", "/v1/basins/X", (), 400)
    for _, secret, headers in _kinds(account):
        for route in (*ROUTES, SESSION_ROUTE, nowhere, method, bad_name):
            _is_unknown(route.ask(account, secret, **headers), route)


@pytest.mark.parametrize("kind", ["basin", "stream", "token"])
def test_names_outside_the_set(account: Account, kind: str) -> None:
    """With all operations, and all sets but one: 403 where a route names what is outside it,
    whether that exists or not, and the usual answer everywhere else. A set left out, an empty one
    and another name are alike. What is done to all basins is outside every set that lacks some."""
    member = {"basin": "basins", "stream": "streams", "token": "access_tokens"}[kind]
    for names in (None, {"exact": ""}, {"exact": "elsewhere-1"}, {"prefix": "elsewhere"}):
        scope = {**EVERYWHERE, member: names, "ops": EVERY_OP}
        secret = account.issue(scope)[1]
        for route in (*ROUTES, SESSION_ROUTE):
            answer = route.ask(account, secret)
            named = route.names.replace("account", "basin")
            if kind in named.replace("everything", "basin stream token").split():
                _is_denied(answer, route)
            elif route.name == "issue-token":
                assert answer.status in (403, 409), answer
            else:
                assert answer.status == route.allowed, (route.name, answer)


@pytest.mark.parametrize("names", [{"exact": BASIN}, {"prefix": BASIN}, {"prefix": "m"}])
def test_a_token_for_some_basins_is_not_one_for_the_account(
    account: Account, names: dict[str, str]
) -> None:
    """However many they are, and though the one that there is is among them: neither the default
    location nor what all basins were used for. Nothing is changed, a child has no more, and its own
    basins stay open to it."""
    scope = {**EVERYWHERE, "basins": names, "ops": EVERY_OP}
    secret = account.issue(scope)[1]
    child = account.issue(scope, secret)[1]
    before = account.ask("GET", "/v1/locations/default").body
    for each in (secret, child):
        for route in (*ROUTES, SESSION_ROUTE):
            answer = route.ask(account, each)
            if {"account", "everything"} & set(route.names.split()):
                _is_denied(answer, route)
            elif not {GONE, "nobody"} & set(route.path.split("?")[0].split("/")):
                assert answer.status in (route.allowed, 403 if route.name == "issue-token" else 0)
        refused = account.ask("PUT", "/v1/locations/default", "nowhere", each)
        assert (refused.status, refused.headers["svc-side-effects"]) == (403, "none")
    assert account.ask("GET", "/v1/locations/default").body == before


def test_root_and_everything(account: Account) -> None:
    """The root token, and one that has all groups, get each route's own answer."""
    halves = {"read": True, "write": True}
    groups = {"account": halves, "basin": halves, "stream": halves}
    full = account.issue({**EVERYWHERE, "op_groups": groups})[1]
    for route in (*ROUTES, SESSION_ROUTE):
        assert route.ask(account, full).status == route.allowed, route.name
        answer = account.ask(route.method, route.path, route.body, **dict(route.named))
        assert answer.status == route.allowed, route.name


def test_auto_prefix(account: Account) -> None:
    """With a prefix every route does what it does, one level down: the names that the caller says
    are those of the prefixed streams."""
    scope = {**EVERYWHERE, "streams": {"prefix": "p/"}, "ops": EVERY_OP}
    secret = account.issue(scope, auto_prefix_streams=True)[1]
    for route in (*ROUTES, SESSION_ROUTE):
        answer = route.ask(account, secret)
        if route.names == "everything":
            _is_denied(answer, route)
            continue
        assert answer.status == route.allowed, (route.name, answer)
        assert "p/" not in answer.body.decode(), route.name
    plain = account.issue(scope)[1]
    for route in (*ROUTES, SESSION_ROUTE):
        if {"stream", "everything"} & set(route.names.split()):
            _is_denied(route.ask(account, plain), route)


def test_groups_are_what_they_stand_for(account: Account) -> None:
    """Half a group at a time: each route is open exactly where the interface's table says so."""
    table = {
        ("account", "read"): (
            "list-basins get-basin-config list-access-tokens list-locations get-default-location "
            "account-metrics"
        ),
        ("account", "write"): (
            "issue-access-token revoke-access-token create-basin delete-basin reconfigure-basin "
            "set-default-location"
        ),
        ("basin", "read"): "get-basin-config list-streams basin-metrics",
        ("basin", "write"): "create-basin delete-basin reconfigure-basin",
        ("stream", "read"): "list-streams get-stream-config check-tail read stream-metrics",
        ("stream", "write"): ("create-stream delete-stream reconfigure-stream append trim fence"),
    }
    for (group, half), ops in table.items():
        secret = account.issue({**EVERYWHERE, "op_groups": {group: {half: True}}})[1]
        for route in ROUTES:
            if route.name == "issue-token" and group == "account":
                continue  # what it asks for is an operation by itself: see the rules of issuing
            answer = route.ask(account, secret)
            if set(route.needs) <= set(ops.split()):
                assert answer.status == route.allowed, (route.name, group, half, answer)
            else:
                _is_denied(answer, route)


def test_the_matrix_is_whole() -> None:
    """Every route that the server has is in the table above, needs something or is free for all."""
    free = {endpoint.operation for endpoint in ENDPOINTS if endpoint.need is None}
    assert free == {
        "health",
        "livez",
        "readyz",
        "metrics",
        "version",
        "openapi",
        "docs",
        "console",
        "console-asset",
        "protocol",
    }
    guarded = {
        (method, resource.template)
        for resource in ROUTER.resources
        for method, endpoint in resource.methods.items()
        if endpoint.need is not None
    }
    seen = {(route.method, _template(route.path)) for route in ROUTES}
    assert guarded == seen
    assert {op for route in ROUTES for op in route.needs} == set(EVERY_OP)


def _template(path: str) -> str:
    segments = path.partition("?")[0].split("/")
    for place, segment in enumerate(segments):
        if segment in (BASIN, GONE):
            segments[place] = "{basin}"
        elif segment in (STREAM, MISSING) and place > 2:
            segments[place] = "{stream}"
        elif segment == "nobody":
            segments[place] = "{id}"
    return "/".join(segments)


def test_free_routes_need_no_token(account: Account) -> None:
    """Probes, metrics and the description of the interface are for all."""
    for path in sorted(path for each in ENDPOINTS if each.need is None for path in each.paths):
        asked = path.format(asset="main.js")
        assert account.ask("GET", asked, None, None).status == 200, path
    assert account.ask("OPTIONS", "/v1/basins", None, None).status == 204
