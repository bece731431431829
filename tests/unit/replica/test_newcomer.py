"""A node that comes and is put off says why, in few lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.base.seldom import LINE_SECONDS
from svc_cluster.catalog.catalog_commands import RegisterNode
from svc_cluster.model.join_token import SECRET_BYTES, JoinToken
from svc_cluster.replica import newcomer
from svc_cluster.replica.newcomer import Newcomer

AWAY = "unavailable: the leader of the catalog did not answer"
OLD = "unavailable: the cluster is at version 2"
NEVER = "invalid: the token is spent"


def told(
    rounds: list[tuple[str | None, ...]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float = LINE_SECONDS,
) -> list[tuple[int, str]]:
    """The asked node and the reason of each line, when the nodes answer so in each round, which
    takes so many `seconds`."""
    monkeypatch.setattr(newcomer, "AGAIN_SECONDS", 0)
    caplog.set_level(logging.WARNING)
    answers = [answer for each in rounds for answer in each]
    at = 0.0

    async def ask(node: NodeId, fill: Callable[[pb.Request], None]) -> pb.Response | None:
        nonlocal at
        at += seconds / len(rounds[0])
        fill(pb.Request())
        answer = answers.pop(0)
        if answer is None:
            return None
        response = pb.Response()
        response.refusal.code, _, response.refusal.message = answer.partition(": ")
        return response

    coming = Newcomer(
        RegisterNode(NodeId(4), "i" * 32, "10.0.0.4:7000"),
        JoinToken(4, bytes(SECRET_BYTES)),
        others=lambda: [NodeId(node) for node in range(1, len(rounds[0]) + 1)],
        ask=ask,
        offer=lambda _: None,
        on_out=lambda _: None,
        now=lambda: at,
        log=get_logger("test"),
    )
    asyncio.run(coming.run())
    lines = [each for each in caplog.records if each.getMessage() == "join_put_off"]
    fields = [getattr(each, "fields", {}) for each in lines]
    return [(int(each["asked_node"]), str(each["reason"])) for each in fields]


def message(answer: str) -> str:
    return answer.partition(": ")[2]


def test_who_is_put_off_says_why_once_for_each_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that do not answer are passed over."""
    rounds: list[tuple[str | None, ...]] = [(None, AWAY)] * 3 + [(OLD, OLD)] * 3 + [(NEVER, None)]
    assert told(rounds, caplog, monkeypatch) == [(2, message(AWAY)), (1, message(OLD))]


def test_reasons_that_change_all_the_time_are_told_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one is told as soon as a line is due."""
    rounds: list[tuple[str | None, ...]] = [*[(AWAY,), (OLD,)] * 60, (NEVER,)]
    assert len(told(rounds, caplog, monkeypatch, seconds=1.0)) == 2


def test_nodes_of_two_opinions_make_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[tuple[str | None, ...]] = [(AWAY, OLD)] * 5 + [(NEVER, None)]
    assert told(rounds, caplog, monkeypatch) == [(1, message(AWAY))]
