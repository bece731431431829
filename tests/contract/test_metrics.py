"""What was used, as the interface tells it: every set, exact refusals, nothing that leaks.

Rules: contract 13.2, 13.3, 13.4 and 13.5.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.access import ALL, EVERYWHERE, Account
from tests.contract.client import Answer, Client, EventStream
from tests.contract.session_client import Session, input_frame

OWN_SERVER = True

HOUR = 3600
DAY = 86400
S2 = {"user-agent": "s2-sdk-python/0.1"}
SEED = {"svc-request-id": "1"}
ACCOUNT_SETS = ("active-basins", "account-ops")
BASIN_SETS = (
    "storage",
    "append-ops",
    "read-ops",
    "read-throughput",
    "append-throughput",
    "basin-ops",
)


def now() -> int:
    return int(time.time())


def query(of: str, start: int | None = None, end: int | None = None, **more: Any) -> str:
    given = {
        "set": of,
        "start": now() - HOUR if start is None else start,
        "end": now() if end is None else end,
        **more,
    }
    return "&".join(f"{name}={value}" for name, value in given.items() if value != "")


def ask(client: Client, path: str, of: str, **more: Any) -> Answer:
    return client.get(f"/v1/metrics{path}?{query(of, **more)}")


def series(answer: Answer) -> dict[str, Any]:
    """By name: kind, unit, interval, and the numbers by time; or, of a label, its values."""
    assert answer.status == 200, answer
    assert answer.json.keys() == {"values"}
    found: dict[str, Any] = {}
    for metric in answer.json["values"]:
        ((kind, body),) = metric.items()
        assert body["name"] not in found
        if kind == "label":
            assert body.keys() == {"name", "values"}
            found[body["name"]] = body["values"]
            continue
        assert body.keys() == {"name", "unit", "values"} | (
            {"interval"} if kind == "accumulation" else set()
        )
        assert all(type(at) is int and type(value) is float for at, value in body["values"])
        values = dict(map(tuple, body["values"]))
        assert list(values) == sorted(values)
        found[body["name"]] = (kind, body["unit"], body.get("interval"), values)
    return found


def total(found: dict[str, Any], name: str) -> float:
    return float(sum(found[name][3].values()))


# -- what is counted


def test_appended_bytes_count_by_storage_class_at_once(client: Client, basin: str) -> None:
    """Metered bytes of every acknowledged batch are in the current bucket when the append is
    answered, none of a refused one; minutes, hours and days have the same sum."""
    for name in ("standard", "express"):
        config = {"storage_class": name}
        body = {"stream": name, "config": config}
        assert client.post("/v1/streams", body, {"svc-basin": basin}).status == 201
    for _ in range(3):
        assert client.append(basin, "standard", b"x" * 92, b"y" * 92).status == 200
    assert client.append(basin, "express", b"z" * 42).status == 200
    assert client.append(basin, "standard", b"x", match_seq_num=0).status == 412
    for interval in ("minute", "hour", "day", ""):
        found = series(ask(client, f"/{basin}", "append-throughput", interval=interval))
        assert found.keys() == {"standard", "express"}
        assert (total(found, "standard"), total(found, "express")) == (600, 50)
        kind, unit, told, values = found["standard"]
        assert (kind, unit, told) == ("accumulation", "bytes", interval or "minute")
        step = {"minute": 60, "hour": HOUR, "day": DAY}[told]
        assert all(at % step == 0 and at <= now() < at + HOUR + step for at in values)


def test_a_minute_of_appends_on_a_connection_is_one_operation(
    client: Client, endpoint: str, basin: str
) -> None:
    """Many appends of one connection to one stream count once a minute; another stream, and
    another connection, count for themselves. A refused append carries nothing away."""
    for name in ("s", "t"):
        client.create_stream(basin, name)
    minutes = {now() // 60}
    assert client.append(basin, "s", b"x", match_seq_num=9).status == 412
    for _ in range(5):
        assert client.append(basin, "s", b"x").status == 200
    assert client.append(basin, "t", b"x").status == 200
    with Client(endpoint) as other:
        assert other.append(basin, "s", b"x").status == 200
        with Session(endpoint, "POST", basin, "/v1/streams/s/records", {}) as session:
            for _ in range(3):
                session.send(input_frame(b"x"))
                assert session.frame() is not None
    minutes.add(now() // 60)
    found = series(ask(client, f"/{basin}", "append-ops"))
    assert found.keys() == {"standard", "express"}
    counted = total(found, "standard")
    assert counted == 4 if len(minutes) == 1 else 4 <= counted <= 8
    assert total(found, "express") == 0


def test_reads_count_by_kind_and_size(client: Client, endpoint: str, basin: str) -> None:
    """A unary read is one operation, refused ones are none; a streaming read is one for each minute
    that it has begun. Bytes are metered, as they were sent."""
    client.create_stream(basin, "s")
    assert client.append(basin, "s", *[b"x" * 92] * 5).status == 200
    assert client.read(basin, "s", "seq_num=0&count=2").status == 200
    assert client.read(basin, "s", "seq_num=0").status == 200
    assert client.read(basin, "s", "seq_num=9").status == 416
    assert client.read(basin, "missing", "seq_num=0").status == 404
    with EventStream(endpoint, basin, "/v1/streams/s/records?seq_num=4&wait=0") as events:
        assert len(list(events)) == 2
    with Session(endpoint, "GET", basin, "/v1/streams/s/records?seq_num=0&count=1", {}) as session:
        while session.frame() is not None:
            pass
    found = series(ask(client, f"/{basin}", "read-ops"))
    assert found.keys() == {"unary", "streaming"}
    assert (total(found, "unary"), total(found, "streaming")) == (2, 2)
    assert found["unary"][:3] == ("accumulation", "operations", "minute")
    found = series(ask(client, f"/{basin}", "read-throughput"))
    ((_, unit, _, values),) = found.values()
    assert (unit, sum(values.values())) == ("bytes", 900)


def test_operations_on_a_basin_count_by_their_names(client: Client, basin: str) -> None:
    """Each by what it did: an ensure that finds the stream reconfigures it. Refused ones do not
    count; metrics queries do, from the next one on."""
    named = {"svc-basin": basin}
    client.create_stream(basin, "s")
    assert client.post("/v1/streams", {"stream": "s"}, named).status == 409
    for status in (201, 200):
        assert client.request("PUT", "/v1/streams/t", None, named).status == status
    assert client.get("/v1/streams/s", named).status == 200
    assert client.get("/v1/streams", named).status == 200
    assert client.tail(basin, "s") == 0
    assert client.delete("/v1/streams/s", named).status == 202
    assert ask(client, f"/{basin}/s", "storage").status == 200
    wanted = {
        "create-stream": 2,
        "reconfigure-stream": 1,
        "get-stream-config": 1,
        "list-streams": 1,
        "check-tail": 1,
        "delete-stream": 1,
        "stream-metrics": 1,
    }
    found = series(ask(client, f"/{basin}", "basin-ops"))
    assert {name: total(found, name) for name in found} == wanted
    assert {(kind, unit, told) for kind, unit, told, _ in found.values()} == {
        ("accumulation", "operations", "hour")
    }
    again = series(ask(client, f"/{basin}", "basin-ops", interval="minute"))
    assert {name: total(again, name) for name in again} == {**wanted, "basin-metrics": 1}


def test_operations_on_the_account_count_by_their_names(client: Client, basin: str) -> None:
    """Before and after: what was done in between has been added, metrics queries included."""

    begun = now() - HOUR

    def counts() -> dict[str, float]:
        found = series(ask(client, "", "account-ops", start=begun))
        assert {(kind, unit, told) for kind, unit, told, _ in found.values()} <= {
            ("accumulation", "operations", "hour")
        }
        return {name: total(found, name) for name in found}

    before = counts()
    assert client.get("/v1/basins").status == 200
    assert client.get(f"/v1/basins/{basin}").status == 200
    assert client.get("/v1/basins/no-such-basin").status == 404
    assert client.request("PUT", f"/v1/basins/{basin}").status == 200
    after = counts()
    more = {name: after[name] - before.get(name, 0) for name in after}
    assert {name: count for name, count in more.items() if count} == {
        "list-basins": 1,
        "get-basin-config": 1,
        "reconfigure-basin": 1,
        "account-metrics": 1,
    }


def test_what_is_stored_is_told_now_and_minute_by_minute(client: Client, basin: str) -> None:
    """Metered bytes of the batches that are kept: of the stream, and of all of them together. A
    trim takes off what it removes."""
    for name in ("s", "t"):
        client.create_stream(basin, name)
    for _ in range(4):
        assert client.append(basin, "s", b"x" * 92).status == 200
    assert client.append(basin, "t", b"x" * 42).status == 200

    def stored(path: str, name: str) -> float:
        ((found, (kind, unit, _, values)),) = series(ask(client, path, "storage")).items()
        assert (found, kind, unit) == (name, "gauge", "bytes")
        at = max(values)
        assert now() - HOUR <= at <= now()
        return float(values[at])

    assert stored(f"/{basin}/s", "stream_storage") == 400
    assert stored(f"/{basin}", "storage") == 450
    trim = {
        "records": [{"headers": [["", "dHJpbQ=="]], "body": "AAAAAAAAAAM="}],
    }
    path = "/v1/streams/s/records"
    assert client.post(path, trim, {"svc-basin": basin}).status == 200
    assert stored(f"/{basin}/s", "stream_storage") == 100 + 22
    assert stored(f"/{basin}", "storage") == 100 + 22 + 50


def test_a_basin_with_a_stream_is_active(client: Client, basin: str) -> None:
    def active(**more: Any) -> list[str]:
        answer = series(ask(client, "", "active-basins", **more))
        assert answer.keys() == {"active_basins"}
        names: list[str] = answer["active_basins"]
        assert names == sorted(names)
        return names

    assert basin not in active()
    client.create_stream(basin, "s")
    assert basin in active()
    assert basin not in active(start=0, end=HOUR)


# -- what is asked


def _paths(basin: str) -> Iterator[tuple[str, str]]:
    for of in ACCOUNT_SETS:
        yield "", of
    for of in BASIN_SETS:
        yield f"/{basin}", of
    yield f"/{basin}/s", "storage"


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"start": ""}, "invalid"),
    ({"end": ""}, "invalid"),
    ({"start": "", "end": ""}, "invalid"),
    ({"start": 2, "end": 1}, "invalid"),
    ({"start": 0, "end": 91 * DAY}, "invalid"),
    ({"start": 0, "end": 90 * DAY + 1}, "invalid"),
    ({"start": "x"}, "bad_query"),
    ({"start": -1}, "bad_query"),
    ({"end": "1.5"}, "bad_query"),
    ({"end": 2**32}, "bad_query"),
    ({"interval": "week"}, "bad_query"),
    ({"interval": "Minute"}, "bad_query"),
]


@pytest.mark.parametrize(
    ("more", "code"), REFUSALS, ids=[" ".join(map(str, more.items())) for more, _ in REFUSALS]
)
def test_what_cannot_be_asked_is_refused_alike_everywhere(
    client: Client, shared_basin: str, more: dict[str, Any], code: str
) -> None:
    """On every path with every set: 400 for what is no number or word, 422 (in the seed dialect
    400) for times that make no sense. That the two times are required is said."""
    for path, of in _paths(shared_basin):
        for dialect, status in ((S2, 422 if code == "invalid" else 400), (SEED, 400), ({}, 400)):
            answer = client.get(f"/v1/metrics{path}?{query(of, **more)}", dialect)
            assert (answer.status, answer.json["code"]) == (status, code), (path, of, answer)
            assert answer.json["error"] == "validation_error"
            if "" in more.values():
                assert "start" in answer.json["message"]
                assert "end" in answer.json["message"]


def test_a_time_that_ends_ahead_is_refused_beyond_a_minute(
    client: Client, shared_basin: str
) -> None:
    for path, of in _paths(shared_basin):
        assert ask(client, path, of, end=now() + 30).status == 200
        assert client.get(f"/v1/metrics{path}?{query(of, end=now() + 600)}", S2).status == 422


def test_sets_that_there_are_not(client: Client, shared_basin: str) -> None:
    """None, an unknown one, and another level's, on each level."""
    for path, of in itertools.product(
        ("", f"/{shared_basin}", f"/{shared_basin}/s"), ("", "nothing", "estimated-billable-usage")
    ):
        if not path and of.startswith("estimated"):
            continue
        answer = client.get(f"/v1/metrics{path}?{query(of)}", S2)
        assert (answer.status, answer.json["code"]) == (400, "bad_query")
    for path, of in (
        ("", "storage"),
        (f"/{shared_basin}", "account-ops"),
        (f"/{shared_basin}/s", "read-ops"),
    ):
        assert client.get(f"/v1/metrics{path}?{query(of)}", S2).status == 400


def test_what_would_be_billed_is_not_told(client: Client, shared_basin: str) -> None:
    """A word of the account alone, and 501 there, in either dialect; times that cannot be asked for
    are refused as of every set."""
    of = "estimated-billable-usage"
    for dialect in (S2, SEED, {}):
        answer = client.get(f"/v1/metrics?{query(of)}", dialect)
        assert (answer.status, answer.json["code"]) == (501, "not_implemented")
        assert of in answer.json["message"]
        assert "svc-side-effects" not in answer.headers
        assert client.get(f"/v1/metrics?{query(of, start=2, end=1)}", dialect).status in (400, 422)
        other = client.get(f"/v1/metrics/{shared_basin}?{query(of)}", dialect)
        assert (other.status, other.json["code"]) == (400, "bad_query")


def test_storage_has_one_interval(client: Client, shared_basin: str) -> None:
    """Of a basin hours, of a stream minutes; another one is 422, or 400 in the seed dialect."""
    for path, only in ((f"/{shared_basin}", "hour"), (f"/{shared_basin}/s", "minute")):
        for interval in ("minute", "hour", "day"):
            wanted = f"/v1/metrics{path}?{query('storage', interval=interval)}"
            expected = (200, 200) if interval == only else (422, 400)
            assert (client.get(wanted, S2).status, client.get(wanted).status) == expected


def test_times_in_which_nothing_was(client: Client, shared_basin: str) -> None:
    """Long ago, and no time at all, are answers like others."""
    for path, of in _paths(shared_basin):
        for start, end in ((0, 0), (0, 1), (0, HOUR), (5, 5), (0, 30 * DAY)):
            found = series(ask(client, path, of, start=start, end=end))
            assert not any(one[3] if isinstance(one, tuple) else one for one in found.values())
        assert ask(client, path, of, start=now(), end=now()).status == 200


def test_what_does_not_exist_was_not_used(client: Client, basin: str) -> None:
    """No 404, and the very answer that is given for a basin or stream without any use."""
    client.create_stream(basin, "used")
    client.append(basin, "used", b"x")
    for of in BASIN_SETS:
        answer = ask(client, "/no-such-basin", of)
        assert not any(one[3] for one in series(answer).values())
    for path in ("/no-such-basin/s", f"/{basin}/no-such-stream"):
        assert series(ask(client, path, "storage"))["stream_storage"][3] == {}
    for path in ("/X", "/no-such-basin/.."):
        answer = client.get(f"/v1/metrics{path}?{query('storage')}", S2)
        assert (answer.status, answer.json["code"]) == (400, "bad_path")


def test_the_time_asked_for_may_begin_within_a_bucket(client: Client, basin: str) -> None:
    """The present hour is told as a whole, however little of it is asked for."""
    client.create_stream(basin, "s")
    for seconds in (0, 1, 600):
        found = {}
        hours = {0, 1}
        while len(hours) > 1:  # once more where an hour began meanwhile
            hours = {now() // HOUR}
            assert client.append(basin, "s", b"x" * 92).status == 200
            begin = now() - seconds
            path = f"/{basin}"
            found = series(ask(client, path, "append-throughput", start=begin, interval="hour"))
            hours.add(now() // HOUR)
        assert total(found, "standard") >= 100


# -- who asks


@pytest.fixture(scope="module")
def used(guarded: Account) -> str:
    """A basin in which others have streams."""
    assert guarded.ask("POST", "/v1/basins", {"basin": "metrics-used"}).status == 201
    assert guarded.ask("POST", "/v1/basins", {"basin": "metrics-other"}).status == 201
    for basin, stream in (
        ("metrics-used", "p/s"),
        ("metrics-used", "s"),
        ("metrics-used", "q/s"),
        ("metrics-other", "s"),
    ):
        assert guarded.ask("POST", "/v1/streams", {"stream": stream}, svc_basin=basin).status == 201
        body = {"records": [{"body": "eA=="}] * (1 + len(stream))}
        path = f"/v1/basins/{basin}/streams/{stream.replace('/', '%2F')}/append"
        assert guarded.ask("POST", path, body).status == 200
    return "metrics-used"


def test_active_basins_are_cut_to_the_token(guarded: Account, used: str) -> None:
    for names, shown in (
        (ALL, ["metrics-other", "metrics-used"]),
        ({"exact": used}, [used]),
        ({"prefix": "metrics-o"}, ["metrics-other"]),
        ({"prefix": "nobody"}, []),
        (None, []),
    ):
        scope = {"basins": names, "ops": ["account-metrics"]}
        answer = guarded.ask(
            "GET", f"/v1/metrics?{query('active-basins')}", None, guarded.issue(scope)[1]
        )
        assert series(answer) == {"active_basins": shown}


def test_a_prefixed_token_sees_its_own_stream_and_no_name(guarded: Account, used: str) -> None:
    """A stream's name is the one below the prefix, dots and slashes in it are no way out, and the
    answer for a stream of others is that for none."""
    scope = {**EVERYWHERE, "streams": {"prefix": "p/"}, "ops": ["stream-metrics"]}
    secret = guarded.issue(scope, auto_prefix_streams=True)[1]

    def stored(name: str) -> dict[int, float]:
        path = f"/v1/metrics/{used}/{name}?{query('storage')}"
        answer = guarded.ask("GET", path, None, secret)
        assert "p/" not in answer.body.decode()
        values: dict[int, float] = series(answer)["stream_storage"][3]
        return values

    assert list(stored("s").values())[-1] == 4 * 9
    for name in ("q%2Fs", "..%2Fs", "..%2Fq%2Fs", "p%2Fs", "%252e%252e%2Fs", "none"):
        assert stored(name) == {}
    longest = guarded.ask("GET", f"/v1/metrics/{used}/{'x' * 511}?{query('storage')}", None, secret)
    assert (longest.status, longest.json["code"]) == (400, "bad_path")


def test_out_of_scope_is_403_whatever_is_asked(guarded: Account, used: str) -> None:
    """Before the parameters are looked at, and whether or not there is such a basin or stream."""
    scope = {
        "basins": {"exact": used},
        "streams": {"exact": "s"},
        "ops": ["basin-metrics", "stream-metrics"],
    }
    secret = guarded.issue(scope)[1]
    for path, status in (
        (f"/{used}?{query('storage')}", 200),
        (f"/{used}/s?{query('storage')}", 200),
        (f"/{used}?set=nothing", 400),
        (f"?{query('account-ops')}", 403),
        ("?set=nothing", 403),
        (f"/metrics-other?{query('storage')}", 403),
        (f"/no-such-basin?{query('storage')}", 403),
        ("/no-such-basin?set=nothing", 403),
        (f"/{used}/q%2Fs?{query('storage')}", 403),
        (f"/{used}/none?{query('storage')}", 403),
        (f"/metrics-other/s?{query('storage')}", 403),
    ):
        answer = guarded.ask("GET", f"/v1/metrics{path}", None, secret)
        assert answer.status == status, (path, answer)
        if status == 403:
            assert json.loads(answer.body)["code"] == "permission_denied"


@pytest.mark.parametrize("path", ["/v1/metrics/no-such-basin", "/v1/metrics/no-such-basin/s"])
def test_answers_about_what_is_not_there_leave_nothing_behind(client: Client, path: str) -> None:
    """Many of them over one connection: none waits for the room of those before it."""
    begun = time.monotonic()
    for _ in range(40):
        answer = client.get(f"{path}?{query('storage')}")
        assert answer.status == 200, answer
    assert time.monotonic() - begun < 30, "one of them has waited for its place"


def test_reads_of_what_is_not_there_leave_nothing_behind(client: Client, basin: str) -> None:
    """The same of reads: more than may be at work at a time."""
    for _ in range(80):
        answer = client.get(f"/v1/basins/{basin}/streams/none/records?seq_num=0")
        assert answer.status == 404, answer
