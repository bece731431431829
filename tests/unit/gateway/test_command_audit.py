"""Trims and fences in the audit log: each is told or counted, refusals too, and a flood is few
lines."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from svc_cluster._pb.s2.v1 import s2_pb2 as pb
from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.errors import DeadlineError, ServiceError, UnavailableError
from svc_cluster.codec.session_frame import encode_frame
from svc_cluster.gateway.access.command_audit import (
    MERGE_SECONDS,
    MERGES_MAX,
    CommandKey,
    CommandMerger,
    effect_of,
)
from svc_cluster.http.message import Request
from tests.unit.gateway.framing import RECORDS
from tests.unit.gateway.scripted import body_of, post
from tests.unit.gateway.test_append_session import Scene, simulate
from tests.unit.gateway.test_audit import Lines


def record(kind: str, body: bytes) -> dict[str, Any]:
    name = base64.b64encode(kind.encode()).decode()
    return {"headers": [["", name]], "body": base64.b64encode(body).decode()}


def trim(point: int) -> dict[str, Any]:
    return record("trim", point.to_bytes(8, "big"))


FENCE = record("fence", b"token-mark-71")
DATA = {"body": "eA=="}


def request(*records: dict[str, Any], **condition: Any) -> Request:
    return post(RECORDS, json.dumps({"records": list(records), **condition}).encode())


def frame(*commands: tuple[bytes, bytes], **conditions: Any) -> bytes:
    message = pb.AppendInput(**conditions)
    for kind, body in commands:
        message.records.add(body=body).headers.add(name=b"", value=kind)
    return encode_frame(message.SerializeToString())


def told(lines: Lines) -> list[tuple[Any, ...]]:
    events, lines.events = lines.events, []
    names = ("operation", "basin", "stream", "effect", "code", "count")
    return [
        tuple(event[name] for name in names)
        + ((event["trim_point"],) if "trim_point" in event else ())
        for event in events
    ]


def test_what_was_done_and_what_was_refused_is_told() -> None:
    """One line for each kind in a batch, with how many and the highest trim point; data is not
    told, nor is a fencing token."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        await scene.open(audit=AuditTrail(lines))
        assert (await scene.app.handle(request(DATA))).status == 200
        assert told(lines) == []
        assert (await scene.app.handle(request(trim(1), DATA, FENCE, trim(0)))).status == 200
        assert "mark-71" not in json.dumps(lines.events)
        done = ("basin-0001", "s", "done", None)
        assert told(lines) == [("fence", *done, 1), ("trim", *done, 2, 1)]
        refused = await scene.app.handle(request(trim(9), fencing_token="another"))
        assert refused.status == 412
        none = ("basin-0001", "s", "none", "append_condition_failed")
        assert told(lines) == [("trim", *none, 1, 9)]
        scene.backend.failures[3] = DeadlineError("late")
        assert (await scene.app.handle(request(FENCE))).status == 408
        assert told(lines) == [("fence", "basin-0001", "s", "possible", "request_timeout", 1)]
        task = asyncio.create_task(scene.app.handle(request(FENCE)))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told(lines) == [("fence", "basin-0001", "s", "possible", None, 1)]

    simulate(main)


def test_a_session_with_many_commands_is_few_lines() -> None:
    """A hundred batches of ten trims in some two seconds, with a thousand trims in all: a line at
    once, then one a second, and their counts add up."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        frames = await scene.frames(audit=AuditTrail(lines))
        batches = 100
        scene.backend.seconds = 0.02
        for number in range(batches):
            points = [(b"trim", (10 * number + n).to_bytes(8, "big")) for n in range(10)]
            scene.body.put(frame(*points))
        scene.body.put(None)
        assert len(await frames.rest()) == batches
        await asyncio.sleep(MERGE_SECONDS)
        events = told(lines)
        assert 3 <= len(events) <= 4
        assert {event[:5] for event in events} == {("trim", "basin-0001", "s", "done", None)}
        assert sum(event[5] for event in events) == 10 * batches
        assert [event[6] for event in events] == sorted(event[6] for event in events)
        assert events[-1][6] == 10 * batches - 1

    simulate(main)


def test_what_a_session_leaves_behind_its_failure_is_told() -> None:
    """The batch that failed with its refusal, and those behind it that were on their way: without
    effect where its was certain to have none."""

    async def main(scene: Scene) -> None:
        for failure, effect in (
            (UnavailableError("no"), "none"),
            (DeadlineError("late"), "possible"),
        ):
            lines = Lines()
            frames = await scene.frames(audit=AuditTrail(lines))
            scene.backend.failures[1] = failure
            for token in (b"a", b"b", b"c"):
                scene.body.put(frame((b"fence", token)))
            found = await frames.rest()
            assert [each.is_terminal for each in found] == [False, True]
            await asyncio.sleep(MERGE_SECONDS)
            events = told(lines)
            assert events[0] == ("fence", "basin-0001", "s", "done", None, 1)
            assert {event[:5] for event in events[1:]} == {
                ("fence", "basin-0001", "s", effect, failure.code.value)
            }
            assert sum(event[5] for event in events[1:]) == 2

    simulate(main)


def test_a_client_that_goes_leaves_what_may_have_happened() -> None:
    """Its batches under way are told as possible, none of them twice."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        frames = await scene.frames(audit=AuditTrail(lines))
        for token in (b"a", b"b"):
            scene.body.put(frame((b"fence", token)))
        answer = await frames.next()
        assert answer is not None and not answer.is_terminal
        await frames.response.body.aclose()  # type: ignore[union-attr]
        await asyncio.sleep(MERGE_SECONDS)
        assert told(lines) == [
            ("fence", "basin-0001", "s", "done", None, 1),
            ("fence", "basin-0001", "s", "possible", None, 1),
        ]

    simulate(main)


def test_while_it_cannot_be_written_no_trim_and_no_fence_is_appended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Data is. The command that was done before is told once there is room."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        frames = await scene.frames(audit=AuditTrail(lines))
        lines.is_full = True
        assert (await scene.app.handle(request(FENCE))).status == 200
        refused = await scene.app.handle(request(trim(1)))
        assert (refused.status, dict(refused.headers)["svc-side-effects"]) == (503, "none")
        assert b"audit" in body_of(refused)
        assert (await scene.app.handle(request(DATA))).status == 200
        scene.body.put(frame((b"fence", b"a")))
        (terminal,) = await frames.rest()
        assert terminal.failure()[0] == 503
        lines.is_full = False
        assert (await scene.app.handle(request(trim(1)))).status == 200
        assert [event[:1] + event[3:4] for event in told(lines)] == [
            ("fence", "done"),
            ("trim", "done"),
        ]
        records = json.loads(
            body_of(
                await scene.app.handle(Request("GET", RECORDS, "", [("svc-basin", "basin-0001")]))
            )
        )["records"]
        assert len(records) <= 3

    simulate(main)
    caplog.clear()


def test_what_waits_is_told_at_the_end() -> None:
    """Of a gateway that stops before the second is over."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        await scene.open(audit=AuditTrail(lines))
        scene.backend.seconds = 0.01
        for point in range(3):
            await scene.app.handle(request(trim(point)))
        assert len(lines.events) == 1
        await scene.app.close()
        assert [event[5:] for event in told(lines)] == [(1, 0), (2, 2)]

    simulate(main)


def key(number: int, effect: str = "done") -> CommandKey:
    return CommandKey("trim", "t", None, "b", f"s{number}", effect, None)


def test_kinds_of_lines_are_bounded_and_none_is_lost() -> None:
    """Beyond the bound the one begun first is written early; what was counted is in it."""
    written: list[tuple[str | None, int, int | None, str | None]] = []
    merger = CommandMerger(
        lambda k, count, point, rid: written.append((k.stream, count, point, rid))
    )
    for number in range(MERGES_MAX + 5):
        for point in range(3):
            merger.add(key(number), 1, point, "r", 0.0)
    assert len(merger) == MERGES_MAX
    assert written[:2] == [("s0", 1, 0, "r"), ("s1", 1, 0, "r")]
    assert ("s0", 2, 2, None) in written
    merger.close()
    assert len(merger) == 0
    assert sum(count for _, count, _, _ in written) == 3 * (MERGES_MAX + 5)


def test_a_line_of_a_kind_is_written_at_most_once_a_second() -> None:
    """Whatever is added: the first at once, the others at the end of each second."""
    written: list[int] = []
    merger = CommandMerger(lambda k, count, point, rid: written.append(count))
    for step in range(1_000):
        merger.add(key(1), 1, step, None, step / 100)
    assert len(written) <= 11
    assert merger.flush(11.0) is not None or sum(written) == 1_000
    merger.close()
    assert sum(written) == 1_000
    assert merger.flush(20.0) is None


def test_refusals_of_commands_share_the_bound_of_refusals() -> None:
    """However many streams they name."""

    async def main(scene: Scene) -> None:
        lines = Lines()
        await scene.open(audit=AuditTrail(lines))
        scene.backend.seconds = 0.0
        for number in range(300):
            answer = await scene.app.handle(
                post(f"/v1/streams/no-{number}/records", json.dumps({"records": [FENCE]}).encode())
            )
            assert answer.status == 404
        assert 100 <= len(lines.events) <= 110
        assert {event["effect"] for event in lines.events} == {"none"}

    simulate(main)


def test_a_fault_is_possible() -> None:
    """What is no refusal of the service says nothing of effects."""
    assert [
        effect_of(each) for each in (None, ServiceError("x"), DeadlineError("x"), OSError())
    ] == [
        "done",
        "none",
        "possible",
        "possible",
    ]
