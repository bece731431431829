"""As test_node_turns, of what other nodes say: every verb of a conversation, every kind of message
between replicas, entries and snapshots as large as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from svc_cluster._pb.cluster.v1 import peer_pb2
from svc_cluster.base.ids import LogIndex
from svc_cluster.codec.formation_report import encode_report
from svc_cluster.link.calls import CallError, Verb
from svc_cluster.link.frame import FrameKind
from svc_cluster.model.formation import FormationReport, Stage
from tests.integration.turns import OTHER, Full, Turn, full, incarnation, kept_short
from tests.integration.turns_peers import (
    MESSAGES,
    Leader,
    entries_of_one_message,
    full_envelope,
    led,
)


class Following:
    """A node of three that follows the test, in the catalog and in a basin."""

    def __init__(self, directory: Path) -> None:
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._made = full(directory, 3)
        self.node: Full = self.run(self._made.__aenter__())
        self.leader: Leader = self.run(led(self.node))

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def say(self, envelope: bytes, kind: FrameKind = FrameKind.BULK) -> None:
        self.node.raft.tell(Verb.PEER, envelope, kind)

    def close(self) -> None:
        self.run(self._made.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Following]:
    made = Following(tmp_path_factory.mktemp("following"))
    yield made
    made.close()


def test_every_kind_of_message_between_replicas_has_a_case() -> None:
    bodies = peer_pb2.GroupMessage.DESCRIPTOR.oneofs_by_name["body"].fields
    assert {"append_request", *MESSAGES} == {field.name for field in bodies}


@pytest.mark.parametrize("kind", sorted(MESSAGES))
def test_an_envelope_full_of_messages_keeps_no_turn_long(following: Following, kind: str) -> None:
    def attempt(number: int) -> list[tuple[str, Turn]]:
        envelope = full_envelope(following.leader, kind)

        async def told() -> Turn:
            turn, _ = await following.node.longest(
                lambda: _said(following, envelope, FrameKind.URGENT)
            )
            return turn

        return [(kind, following.run(told()))]

    kept_short(attempt)


def _said(following: Following, envelope: bytes, kind: FrameKind) -> asyncio.Future[None]:
    following.say(envelope, kind)
    return asyncio.ensure_future(asyncio.sleep(0))


def test_the_entries_of_one_message_keep_no_turn_long(following: Following) -> None:
    """Until they are applied."""

    def attempt(number: int) -> list[tuple[str, Turn]]:
        turns = []
        for which in range(2):
            message = entries_of_one_message(following.leader)[which]
            turns.append((f"{len(message.entries)} entries", following.run(_applied(message))))
        return turns

    async def _applied(message: Any) -> Turn:
        end = LogIndex(message.previous_index + len(message.entries))
        envelope = following.leader.envelope(message)

        async def applied() -> None:
            following.say(envelope)
            while following.leader.group.applied_index < end:
                await asyncio.sleep(0.001)

        turn, _ = await following.node.longest(lambda: asyncio.ensure_future(applied()))
        return turn

    kept_short(attempt)


def _form(following: Following) -> Callable[[], Any]:
    report = FormationReport(OTHER, incarnation(OTHER), 7, Stage.GATHERING, ())
    return lambda: following.node.service.say(Verb.FORM, encode_report(report), FrameKind.CALL)


def _nobody_answers(following: Following) -> Callable[[], Any]:
    def act() -> Any:
        with pytest.raises(CallError):
            following.node.service.tell(Verb.ANSWER, b"", FrameKind.CALL)
        return asyncio.ensure_future(asyncio.sleep(0))

    return act


def _cancel(following: Following) -> Callable[[], Any]:
    def act() -> Any:
        following.node.service.tell(Verb.CANCEL, b"", FrameKind.CALL)
        return asyncio.ensure_future(asyncio.sleep(0))

    return act


VERBS: dict[Verb, Callable[[Following], Callable[[], Any]] | str] = {
    Verb.REQUEST: "test_node_turns.py",
    Verb.ANSWER: _nobody_answers,
    Verb.CANCEL: _cancel,
    Verb.PEER: "above",
    Verb.SNAPSHOT: "test_node_turns.py, with the state of a full basin and of the catalog",
    Verb.FORM: _form,
}


def test_every_verb_has_a_case() -> None:
    assert VERBS.keys() == set(Verb)


@pytest.mark.parametrize(
    "verb", [verb for verb, case in VERBS.items() if not isinstance(case, str)]
)
def test_a_verb_keeps_no_turn_long(following: Following, verb: Verb) -> None:
    case = VERBS[verb]
    assert not isinstance(case, str)
    act = case(following)
    kept_short(lambda number: [(verb.name, following.run(following.node.longest(act))[0])])
