"""An append is asked for until it is known, under one request token, and no longer."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from svc_cluster.client.client_errors import AnswerRefusedError, AwayError, OutcomeUnknownError
from svc_cluster.client.definite_append import TOKEN_HEADER, DefiniteAppender
from svc_cluster.client.service_client import ServerAddress, ServiceClient
from svc_cluster.client.wire_records import AppendRecord
from tests.unit.client.scripted_server import Answer, Asked, against, patience

ACK = json.dumps(
    {name: {"seq_num": at, "timestamp": 5} for name, at in (("start", 7), ("end", 8), ("tail", 9))}
).encode()
OURS: Answer = (200, b'{"name":"svc-cluster","version":"1"}')


def refused(status: int, code: str, **more: Any) -> Answer:
    return status, json.dumps({"code": code, "message": "why", **more}).encode()


def appended(
    answers: list[Answer], version: Answer = OURS, seconds: float = 60.0
) -> tuple[Any, list[Asked]]:
    """Append one record to a server with these answers in turn, the last one for ever: the
    acknowledgement or the exception, and the appends that came."""
    left = list(answers)
    outcome: list[Any] = []

    def answer(asked: Asked) -> Answer:
        if asked.line == "GET /version":
            return version
        return left.pop(0) if len(left) > 1 else left[0]

    async def use(client: ServiceClient) -> None:
        tokens = (f"token-{number}" for number in itertools.count())
        appender = DefiniteAppender(client, "basin", "s", patience(seconds), lambda: next(tokens))
        try:
            outcome.append(await appender.append([AppendRecord(b"a")], match_seq_num=7))
        except Exception as cause:
            outcome.append(cause)

    seen = [asked for asked in against(answer, use) if asked.line != "GET /version"]
    return outcome[0], seen


def test_what_fails_for_a_moment_is_asked_again_with_the_same_token_and_body() -> None:
    """A closed connection, and each status that passes; all attempts are alike."""
    passing = [
        refused(408, "request_timeout", may_have_taken_effect=True),
        refused(429, "rate_limited"),
        refused(502, "hot_server", may_have_taken_effect=False),
        refused(503, "unavailable"),
        refused(409, "transaction_conflict"),
        (200, ACK),
    ]
    ack, seen = appended([None, *passing])
    assert (ack.start.seq_num, ack.end.seq_num, ack.tail.seq_num) == (7, 8, 9)
    assert len(seen) == len(passing) + 1
    assert {asked.headers[TOKEN_HEADER] for asked in seen} == {"token-0"}
    assert {asked.body for asked in seen} == {b'{"records":[{"body":"YQ=="}],"match_seq_num":7}'}


def test_a_refusal_for_good_is_told_at_once() -> None:
    """Also behind an attempt that surely had no effect, and a condition's behind one that may
    have had: the server has kept the outcome under the token."""
    for answers in (
        [refused(404, "stream_not_found")],
        [refused(503, "unavailable", may_have_taken_effect=False), refused(404, "x")],
        [None, (412, b'{"seq_num_mismatch":9}')],
    ):
        cause, seen = appended(answers)
        assert isinstance(cause, AnswerRefusedError), cause
        assert len(seen) == len(answers)


def test_what_may_have_happened_is_never_told_as_refused() -> None:
    """A token that ends between two attempts says nothing of the first one."""
    cause, _ = appended([None, refused(401, "authn")])
    assert isinstance(cause, OutcomeUnknownError)
    assert "whether these records were appended is not known" in str(cause)


def test_a_server_without_request_tokens_is_not_asked_twice() -> None:
    """Once an append may have happened there, it is left at that; what surely had no effect is
    asked again."""
    cause, seen = appended([None], version=(404, b"{}"))
    assert isinstance(cause, OutcomeUnknownError)
    assert "does not know request tokens" in str(cause)
    assert len(seen) == 1
    refusals = [refused(503, "unavailable", may_have_taken_effect=False), (200, ACK)]
    ack, seen = appended(refusals, version=(404, b"{}"))
    assert ack.start.seq_num == 7
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, OutcomeUnknownError),
        (refused(503, "unavailable", may_have_taken_effect=False), AnswerRefusedError),
        (refused(503, "unavailable"), OutcomeUnknownError),
    ],
)
def test_the_patience_ends(answer: Answer, kind: type[Exception]) -> None:
    """With what is known: nothing, or that it was not appended."""
    cause, _ = appended([answer], seconds=0.0)
    assert type(cause) is kind


def test_nobody_there_means_not_appended() -> None:
    """A connection that was refused carried nothing."""

    async def use(_: ServiceClient) -> None:
        async with ServiceClient(ServerAddress(url="http://127.0.0.1:9")) as client:
            appender = DefiniteAppender(client, "basin", "s", patience(0.0), lambda: "t")
            with pytest.raises(AwayError, match="these records were not appended"):
                await appender.append([AppendRecord(b"a")])

    assert against(lambda _: OURS, use) == []
