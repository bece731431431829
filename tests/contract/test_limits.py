"""Limits on the wire, over both protocols: 429 with the time to wait, quotas, and the cap of failed
attempts that valid tokens do not notice.

Rules: contract 3.6, 14.1 and 14.2.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from svc_cluster.model.access_secret import secret_text
from tests.contract import conftest
from tests.contract.access import EVERY_OP, EVERYWHERE, ROOT_SECRET, Account, bearer
from tests.contract.client import Answer, Client, b64
from tests.contract.conftest import Server, running
from tests.contract.session_client import ack_of, append_session, input_frame

_NUMBERS = itertools.count()
REQUESTS_PER_SECOND = 20.0
STREAMS_MAX = 5
BASINS_MAX = 4
TOKENS_MAX = 4
FAILURES_PER_SECOND = 2.0


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A limit for all requests together."""
    gateway = {"account_requests_per_second": REQUESTS_PER_SECOND}
    with running(Server(tmp_path_factory.mktemp("limited"), 10.0, gateway=gateway)) as server:
        yield server


@pytest.fixture(params=["http", "h2c"])
def client(limited: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(f"{request.param}://127.0.0.1:{limited.port}") as opened:
        yield opened


def patient(client: Client, *ask: Any, **more: Any) -> Answer:
    """As asked, and again after what is announced."""
    answer = client.request(*ask, **more)
    waits = 0
    while answer.status == 429:
        waits += 1
        assert waits <= 3, "it has waited three times as it was told"
        time.sleep(int(answer.headers["retry-after-ms"]) / 1000)
        answer = client.request(*ask, **more)
    return answer


def new_stream(client: Client) -> str:
    basin = f"limits-{next(_NUMBERS):05}"
    answer = patient(
        client,
        *("POST", "/v1/basins", f'{{"basin":"{basin}"}}'.encode()),
        {"content-type": "application/json"},
    )
    assert answer.status == 201, answer
    answer = patient(
        client,
        *("POST", "/v1/streams", b'{"stream":"s"}'),
        {"content-type": "application/json", "svc-basin": basin},
    )
    assert answer.status == 201, answer
    return basin


def test_a_lone_client_is_refused_with_the_time_to_wait_and_then_served(client: Client) -> None:
    """The refusal says all that the contract wants, and nothing has happened of it."""
    basin = new_stream(client)
    body = f'{{"records":[{{"body":"{b64("x")}"}}]}}'.encode()
    ask = ("POST", "/v1/streams/s/records", body)
    headers = {"content-type": "application/json", "svc-basin": basin}
    served = refused = 0
    begun = time.monotonic()
    while refused < 15:
        answer = client.request(*ask, headers)
        if answer.status == 200:
            served += 1
            continue
        refused += 1
        assert answer.status == 429
        assert answer.json["code"] == answer.json["error"] == "rate_limited"
        assert answer.json["may_have_taken_effect"] is False
        assert answer.headers["svc-side-effects"] == "none"
        wait_ms = int(answer.headers["retry-after-ms"])
        assert 1 <= wait_ms <= 2_000
        assert int(answer.headers["retry-after"]) == -(-wait_ms // 1000)
        time.sleep(wait_ms / 1000)
        answer = client.request(*ask, headers)
        assert answer.status == 200, answer
        served += 1
    seconds = time.monotonic() - begun
    assert served <= REQUESTS_PER_SECOND * (seconds + 1) + 2
    tail = patient(client, "GET", "/v1/streams/s/records/tail", None, {"svc-basin": basin})
    assert tail.json["tail"]["seq_num"] == served


@pytest.mark.parametrize("scheme", ["http", "h2c"])
def test_a_crowd_is_served_at_the_limit_and_nobody_is_left_without(
    limited: Server, scheme: str
) -> None:
    """Twelve clients that wait as they are told, with their own connections, for 6 s: together they
    are served 90 to 100 % of the limit, and each has a part. What they miss because they come later
    than they were told, on a busy machine, counts as served: each has a place in every round."""
    count, seconds = 12, 6.0
    url = f"{scheme}://127.0.0.1:{limited.port}"
    with Client(url) as first:
        while first.get("/v1/basins").status != 429:  # what was saved up is no part of it
            pass
    end_at = time.monotonic() + seconds

    def one(number: int) -> tuple[int, float, float]:
        served, longest, late, due = 0, 0.0, 0.0, time.monotonic()
        with Client(url) as client:
            while time.monotonic() < end_at:
                answer = client.get("/v1/basins")
                late += time.monotonic() - due
                due = time.monotonic()
                if answer.status == 200:
                    served += time.monotonic() < end_at
                    continue
                assert answer.status == 429
                wait = int(answer.headers["retry-after-ms"]) / 1000
                longest = max(longest, wait)
                due += wait
                time.sleep(wait)
        return served, longest, late

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(one, range(count)))
    served = [number for number, _, _ in found]
    missed = sum(late for _, _, late in found) * REQUESTS_PER_SECOND / count
    assert sum(served) <= REQUESTS_PER_SECOND * seconds, served
    assert sum(served) + missed >= 0.90 * REQUESTS_PER_SECOND * seconds, (served, missed)
    assert min(served) > 0, served
    place = 1 / (0.95 * REQUESTS_PER_SECOND)
    assert max(longest for _, longest, _ in found) <= 1.1 * place + 0.003


def test_probes_are_not_limited(client: Client) -> None:
    """However many there are."""
    for _ in range(100):
        assert client.get("/health").status == 200


def test_a_session_is_slowed_down_and_not_refused(limited: Server) -> None:
    """Each batch counts as a request; all are acknowledged."""
    endpoint = f"http://127.0.0.1:{limited.port}"
    with Client(endpoint) as client:
        basin = new_stream(client)
    count = int(2.5 * REQUESTS_PER_SECOND)
    begun = time.monotonic()
    while True:
        with append_session(endpoint, basin, "s") as session:
            if session.status == 429:
                time.sleep(0.1)  # until it may open
                continue
            for number in range(count):
                session.send(input_frame(str(number).encode()))
            session.half_close()
            acks = [ack_of(frame) for frame in session.rest()]
            break
    assert acks == [(number, number + 1) for number in range(count)]
    assert time.monotonic() - begun >= count / REQUESTS_PER_SECOND - 1.1


# -- quotas


@pytest.fixture(scope="module")
def guarded_with_quotas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with (
        running(
            Server(
                tmp_path_factory.mktemp("quotas"),
                10.0,
                ROOT_SECRET,
                node={
                    "basins_max": BASINS_MAX,
                    "streams_per_basin_max": STREAMS_MAX,
                    "access_tokens_max": TOKENS_MAX,
                },
                gateway={"failed_authentications_per_second": FAILURES_PER_SECOND},
            )
        ) as server,
        Account(f"http://127.0.0.1:{server.port}", server.directory) as account,
    ):
        yield account


def at_once(count: int, endpoint: str, directory: Any, ask: Any) -> list[Answer]:
    def one(number: int) -> Answer:
        account = Account(endpoint, directory)
        try:
            answer: Answer = ask(account, number)
        finally:
            account.client.connection.close()
        return answer

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def check_quota(answers: list[Answer], room: int) -> None:
    assert sorted({answer.status for answer in answers}) == [201, 403]
    assert sum(answer.status == 201 for answer in answers) == room
    for answer in answers:
        if answer.status == 403:
            assert answer.json["code"] == "quota_exhausted"
            assert answer.json["error"] == "forbidden"
            assert answer.json["may_have_taken_effect"] is False


def test_quotas_hold_for_all_who_ask_at_once(guarded_with_quotas: Account) -> None:
    """Basins, streams of a basin, tokens: of many at the same time exactly those are made for which
    there is room, and what is removed makes room again."""
    account = guarded_with_quotas
    more = (account.endpoint, account.directory)

    def basin(asking: Account, number: int) -> Answer:
        return asking.ask("POST", "/v1/basins", {"basin": f"quota-basin-{number}"})

    answers = at_once(12, *more, basin)
    check_quota(answers, BASINS_MAX)
    made = next(n for n, answer in enumerate(answers) if answer.status == 201)

    def stream(asking: Account, number: int) -> Answer:
        body = {"stream": f"s-{number}"}
        return asking.ask("POST", "/v1/streams", body, svc_basin=f"quota-basin-{made}")

    check_quota(at_once(20, *more, stream), STREAMS_MAX)

    def token(asking: Account, number: int) -> Answer:
        body = {"id": f"t-{number}", "scope": {"ops": ["read"]}}
        return asking.ask("POST", "/v1/access-tokens", body)

    answers = at_once(12, *more, token)
    check_quota(answers, TOKENS_MAX - 1)  # and the root's
    issued = next(n for n, answer in enumerate(answers) if answer.status == 201)
    assert account.revoke(f"t-{issued}").status == 204
    assert token(account, 99).status == 201
    assert account.ask("DELETE", f"/v1/basins/quota-basin-{made}").status == 202
    account.until(lambda: basin(account, 99).status == 201)


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    node = {
        "basins_max": 6,
        "token_basins_max": 2,
        "token_access_tokens_max": 3,
        "stored_mib_per_basin_max": 1,
    }
    with (
        running(Server(tmp_path_factory.mktemp("tenants"), 10.0, ROOT_SECRET, node=node)) as server,
        Account(f"http://127.0.0.1:{server.port}", server.directory) as account,
    ):
        yield account


def test_a_chain_of_tokens_has_quotas_of_its_own(tenants: Account) -> None:
    """Basins and tokens of a first token and of all that came from it, together, however many ask
    at once, by whichever of them, by PUT as well; another chain has its own, and the root token the
    account's alone. What is removed makes room, and a restart forgets nothing."""
    account = tenants
    more = (account.endpoint, account.directory)
    everything = {**EVERYWHERE, "ops": EVERY_OP}
    _, first = account.issue(everything)
    _, child = account.issue(everything, first)
    grandchild_id, grandchild = account.issue(everything, child)
    family = (first, child, grandchild)

    def token(asking: Account, number: int) -> Answer:
        body = {"id": f"more-{number}", "scope": {"ops": ["read"]}}
        return asking.ask("POST", "/v1/access-tokens", body, family[number % 3])

    for answer in at_once(6, *more, token):
        assert (answer.status, answer.json["code"]) == (403, "quota_exhausted")
    _, stranger = account.issue(everything)

    def basin(asking: Account, number: int, secret: str | None = None) -> Answer:
        who, name = secret or family[number % 3], f"chain-basin-{number}"
        if number % 2:
            return asking.ask("PUT", f"/v1/basins/{name}", {}, who)
        return asking.ask("POST", "/v1/basins", {"basin": name}, who)

    answers = at_once(12, *more, basin)
    check_quota(answers, 2)
    made = next(n for n, answer in enumerate(answers) if answer.status == 201)
    assert basin(account, 20, stranger).status == 201
    assert basin(account, 21, stranger).status == 201
    assert basin(account, 22, stranger).status == 403
    assert basin(account, 24, ROOT_SECRET).status == 201
    assert basin(account, 25, ROOT_SECRET).status == 201
    assert basin(account, 26, ROOT_SECRET).json["code"] == "quota_exhausted", "the account's"
    assert account.ask("PUT", f"/v1/basins/chain-basin-{made}", {}, first).status == 200
    text = account.ask("GET", "/metrics").body.decode()
    assert 'svc_quota_refusals_total{route="/v1/basins"}' in text
    assert 'svc_quota_refusals_total{route="/v1/access-tokens"}' in text
    account.client.connection.close()
    conftest._SERVERS[-1].restart()
    account.until(lambda: account.ask("GET", "/v1/basins").status == 200)
    assert account.ask("DELETE", "/v1/basins/chain-basin-24").status == 202
    account.until(lambda: basin(account, 24, ROOT_SECRET).status in (201, 409))
    assert account.ask("DELETE", "/v1/basins/chain-basin-20").status == 202
    account.until(lambda: account.ask("GET", "/v1/basins/chain-basin-20").status == 404)
    assert basin(account, 32).json["code"] == "quota_exhausted", "the chain's, not the account's"
    assert basin(account, 34, stranger).status == 201
    assert account.revoke(grandchild_id).status == 204
    assert (
        account.ask(
            "POST", "/v1/access-tokens", {"id": "more-9", "scope": {"ops": ["read"]}}, first
        ).status
        == 201
    )


def test_a_basin_stores_no_more_than_it_may(tenants: Account) -> None:
    """Of appends, repeatable ones and sessions: 403 without effect; a repetition is judged anew;
    trims are taken, and make room."""
    account, path = tenants, "/v1/streams/full/records"
    account.until(lambda: account.ask("GET", "/v1/basins").status == 200)
    there = account.ask("GET", "/v1/basins").json["basins"]
    basin = there[0]["name"] if there else "stored-basin"
    if not there:  # no other test of this module came before
        assert account.ask("POST", "/v1/basins", {"basin": basin}).status == 201
    assert account.ask("POST", "/v1/streams", {"stream": "full"}, svc_basin=basin).status == 201

    def append(size: int, **headers: str) -> Answer:
        body = {"records": [{"body": b64(b"x" * size)}]}
        return account.ask("POST", path, body, svc_basin=basin, **headers)

    assert append(900_000).status == 200
    for _ in range(2):
        refused = append(200_000, svc_request_token="again")
        assert (refused.status, refused.json["code"]) == (403, "quota_exhausted")
        assert refused.json["may_have_taken_effect"] is False
    with append_session(account.endpoint, basin, "full", **bearer(ROOT_SECRET)) as session:
        session.send(input_frame(b"y" * 200_000))
        (terminal,) = session.rest()
        status, body = terminal.failure()
        assert (status, b"quota_exhausted" in body) == (403, True)
    trim = {"headers": [["", b64(b"trim")]], "body": b64((1).to_bytes(8, "big"))}
    assert account.ask("POST", path, {"records": [trim]}, svc_basin=basin).status == 200
    account.until(lambda: append(200_000, svc_request_token="again").status == 200)
    records = account.ask("GET", path + "?seq_num=1", svc_basin=basin).json["records"]
    assert [record["seq_num"] for record in records] == [1, 2]


def test_sums_of_streams_and_bytes_are_reserved(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of all who make basins at once, as many succeed as find their streams reserved: the chain's
    first, then the account's. What is gone gives its part back."""
    node = {"streams_per_basin_max": 5, "streams_max": 24, "token_streams_max": 10}
    server = Server(tmp_path_factory.mktemp("sums"), 10.0, ROOT_SECRET, node=node)
    with running(server), Account(f"http://127.0.0.1:{server.port}", server.directory) as account:
        more = (account.endpoint, account.directory)
        secrets = [account.issue({**EVERYWHERE, "ops": EVERY_OP})[1] for _ in range(3)]

        def basin(asking: Account, number: int, secrets: list[str] = secrets) -> Answer:
            body = {"basin": f"reserved-{number}"}
            return asking.ask("POST", "/v1/basins", body, secrets[number % 3])

        answers = at_once(15, *more, basin)
        check_quota(answers, 4)
        made = [number for number, answer in enumerate(answers) if answer.status == 201]
        assert all(sum(n % 3 == who for n in made) <= 2 for who in range(3))
        assert account.ask("DELETE", f"/v1/basins/reserved-{made[0]}").status == 202
        account.until(lambda n=made[0]: basin(account, 15 + n).status == 201)


# -- failed attempts


def test_valid_tokens_are_served_beside_any_number_of_guesses(
    guarded_with_quotas: Account,
) -> None:
    """Guesses are answered 401, then 429; from the same address the root token is always served."""
    account = guarded_with_quotas
    seen: dict[int, int] = {}
    for number in range(150):
        secret = secret_text(number.to_bytes(32, "big")) if number % 3 else "garbage"
        answer = account.ask("GET", "/v1/basins", None, secret)
        seen[answer.status] = seen.get(answer.status, 0) + 1
        if answer.status == 429:
            assert answer.json["code"] == "rate_limited"
            assert int(answer.headers["retry-after-ms"]) > 0
        if number % 10 == 0:
            assert account.ask("GET", "/v1/basins").status == 200
    assert seen.keys() == {401, 429}
    assert seen[429] >= 50
    nobody = account.ask("GET", "/v1/basins", None, None)
    assert nobody.status == 401, "without any token nothing is guessed"
