"""What one request may do to the others of its conversation: nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster._pb.s2.v1 import s2_pb2
from svc_cluster.base.errors import HotServerError, InternalError, ServiceError
from svc_cluster.base.ids import GroupId, TimestampMs
from svc_cluster.codec import rpc
from svc_cluster.link.calls import HEAD, Verb, encode
from svc_cluster.link.credit import CREDIT_BYTES, MESSAGE_BYTES_MAX
from svc_cluster.link.frame import FrameKind
from svc_cluster.link.link_errors import LinkBusyError
from svc_cluster.link.session import REQUEST_BYTES_MAX, RequestTooLongError
from svc_cluster.model.read_bounds import ReadBounds, ReadStart, StartKind
from svc_cluster.model.record import AppendAck, StoredBatch
from svc_cluster.replica import answer_room
from svc_cluster.replica.answer_room import ROOM_BYTES_MAX, AnswerRoom
from svc_cluster.replica.repeatable import Fill
from svc_cluster.replica.roles import OWN
from tests.at_once import build_batch
from tests.integration.conversation import DEADLINE_SECONDS, Pair, pair

CLIENTS = 6
APPENDS = 40
GHOSTS = 300
TOLD_SECONDS_MAX = 10.0
"""Until everybody knows what became of a request, once all other answers are there."""


def in_a_pair(directory: Path, body: Callable[[Pair], Awaitable[None]]) -> None:
    async def run() -> None:
        async with pair(directory) as two:
            await body(two)

    asyncio.run(run())


async def bodies_of(two: Pair, basin: str, stream: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        answer = await two.client.read(
            basin,
            stream,
            ReadStart(StartKind.SEQ_NUM, len(found)),
            ReadBounds(),
            refuse_at_tail=False,
            wait_ms=0,
        )
        for batch in answer.batches:
            found += [record.body for record in decoded(batch.records)]
        if not answer.may_have_more:
            return found


def decoded(records: bytes) -> list[s2_pb2.AppendRecord]:
    return list(s2_pb2.AppendInput.FromString(records).records)


def one_record(body: bytes) -> StoredBatch:
    return build_batch([(None, (), body)])


class Busy:
    """A client of a basin of its own: what it was told, to be compared with what is there."""

    def __init__(self, two: Pair, number: int) -> None:
        self._two = two
        self.basin = f"busy-basin-{number}"
        self._number = number
        self.acked: list[bytes] = []
        self.others: list[ServiceError] = []

    async def run(self) -> None:
        for attempt in range(APPENDS):
            body = b"%d of %d" % (attempt, self._number)
            try:
                ack = await self._two.client.append(self.basin, "s", one_record(body), None, None)
            except ServiceError as refusal:
                self.others.append(refusal)
            else:
                assert isinstance(ack, AppendAck)
                assert ack.start.seq_num == len(self.acked)
                self.acked.append(body)

    async def check(self) -> None:
        """Every answer was the one to this client's own request, and is true."""
        assert self.others == []
        assert await bodies_of(self._two, self.basin, "s") == self.acked
        assert len(self.acked) == APPENDS


async def beside_busy_clients(two: Pair, ghost: Callable[[int], Awaitable[None]]) -> None:
    busy = [Busy(two, number) for number in range(CLIENTS)]
    for client in busy:
        await two.stream(client.basin, "s")

    async def ghosts() -> None:
        for number in range(GHOSTS):
            await ghost(number)
            if number % 7 == 0:
                await asyncio.sleep(0)

    before = dict(two.client._leaders.retries)
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        for client in busy:
            group.create_task(client.run())
        group.create_task(ghosts())
    for client in busy:
        await client.check()
    async with asyncio.timeout(TOLD_SECONDS_MAX):
        while two.session.pending:
            await asyncio.sleep(0.01)
    assert two.client._leaders.retries == before, "nothing was refused and silently sent again"


def test_a_request_that_cannot_be_written_is_never_sent(tmp_path: Path) -> None:
    """300 requests whose filling fails half-way, beside six clients: each fails by itself, none of
    them reaches the node, and every other client is told the truth."""

    async def body(two: Pair) -> None:
        async def ghost(number: int) -> None:
            def fill(request: pb.Request) -> None:
                request.append.stream = "s"
                request.append.records = one_record(b"ghost").records
                request.append.record_count = 1
                request.append.metered_bytes = 13
                request.append.match_seq_num = 2**64

            group = two.client.directory.known(f"busy-basin-{number % CLIENTS}")
            assert group is not None
            with pytest.raises(ValueError, match="out of range"):
                _ = two.session.call(group.group_id, 4000, fill)

        await beside_busy_clients(two, ghost)
        arrived = [each for each in two.wire.requests if each.verb is Verb.REQUEST]
        sent = [pb.Request.FromString(each.body) for each in arrived]
        assert all(request.WhichOneof("operation") is not None for request in sent)
        assert not any(b"ghost" in request.append.records for request in sent)
        assert [each.number for each in arrived] == list(range(1, len(sent) + 1))

    in_a_pair(tmp_path, body)


def test_an_answer_that_cannot_be_written_is_nobody_elses(tmp_path: Path) -> None:
    """300 answers whose filling fails half-way: each of these requests is told that nothing is
    known of its effects, at once, and nobody else notices."""

    async def body(two: Pair) -> None:
        async def broken(request: pb.Request) -> Fill:
            def fill(response: pb.Response) -> None:
                response.append.start.seq_num = 7
                response.append.end.seq_num = 2**64

            return fill

        two.node.service._operations["active_basins"] = broken
        told: list[asyncio.Future[pb.Response]] = []

        async def ghost(number: int) -> None:
            told.append(two.session.call(GroupId(1), 4000, lambda r: r.active_basins.SetInParent()))

        await beside_busy_clients(two, ghost)
        async with asyncio.timeout(TOLD_SECONDS_MAX):
            answers = await asyncio.gather(*told)
        for response in answers:
            refusal = rpc.refusal_from_pb(response.refusal)
            assert isinstance(refusal, InternalError)
            assert refusal.may_have_taken_effect

    in_a_pair(tmp_path, body)


def test_a_write_whose_deciding_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """300 changes that fail with a bug of ours after the sequencer has handed out what they would
    do (a place at the tail of everybody's stream): each is told that it had no effect, and the
    appends decided behind it in the same entry get the places that they are told."""

    async def body(two: Pair) -> None:
        told: list[ServiceError] = []

        async def ghost(number: int) -> None:
            group = two.client.directory.known(f"busy-basin-{number % CLIENTS}")
            assert group is not None
            basin = two.node.host.basins[group.group_id]

            def sequence(now_ms: TimestampMs) -> None:
                basin.sequencer.append("s", one_record(b"ghost"), None, None, now_ms)
                raise ZeroDivisionError

            def done(outcome: object, error: ServiceError | None) -> None:
                assert outcome is None
                assert error is not None
                told.append(error)

            deadline = two.node.services.clock.monotonic() + DEADLINE_SECONDS
            basin.appender.change(sequence, deadline, done)

        await beside_busy_clients(two, ghost)
        async with asyncio.timeout(TOLD_SECONDS_MAX):
            while len(told) < GHOSTS:
                await asyncio.sleep(0.01)
        for error in told:
            assert isinstance(error, InternalError)
            assert not error.may_have_taken_effect

    in_a_pair(tmp_path, body)


def test_a_message_that_cannot_be_read_harms_no_other(tmp_path: Path) -> None:
    """A request among others, and an answer: the rest is taken, and the conversation goes on. The
    request is refused without effect; who waits for the answer goes by its deadline."""

    async def body(two: Pair) -> None:
        await two.stream("some-basin", "s")
        before = len(two.wire.answers)
        noise = b"\xff\xff\xff"
        ping = pb.Request()
        ping.ping.SetInParent()
        for number, data in enumerate((noise, ping.SerializeToString(), noise), start=2**40):
            two.wire.send(FrameKind.CALL, 1, encode(Verb.REQUEST, number, data))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(two.wire.answers) < before + 3:
                await asyncio.sleep(0)
        answers = {
            each.number: pb.Response.FromString(each.body) for each in two.wire.answers[before:]
        }
        assert [answers[number].WhichOneof("result") for number in sorted(answers)] == [
            "refusal",
            "done",
            "refusal",
        ]
        refusal = answers[2**40].refusal
        assert (refusal.code, refusal.may_have_taken_effect) == ("bad_proto", False)
        two.wire.frozen = True
        call = two.session.call(GroupId(1), 1000, lambda r: r.ping.SetInParent())
        other = two.session.call(GroupId(1), 1000, lambda r: r.ping.SetInParent())
        last = two.session._calls._next - 1
        done = pb.Response(id=last)
        done.done.SetInParent()
        for number, data in ((last - 1, noise), (last, done.SerializeToString())):
            two.wire.caller.send(FrameKind.CALL, 1, encode(Verb.ANSWER, number, data))
        two.wire.read_on()
        assert (await other).WhichOneof("result") == "done", "what came behind was read"
        assert (await call).WhichOneof("result") == "done", "its own answer came later"
        await two.client.append("some-basin", "s", one_record(b"x"), None, None)

    in_a_pair(tmp_path, body)


def test_what_is_asked_at_once_keeps_to_the_credit(tmp_path: Path) -> None:
    """40 appends of 0.9 MB in one turn, then as many reads: what there is no credit for is refused
    as busy without effect and sent again, no message of either side is beyond its class's bound,
    and all of it arrives, each once. What fits in no message is refused to whoever asks."""

    async def body(two: Pair) -> None:
        await two.stream("some-basin", "s")
        bodies = [random.Random(number).randbytes(900_000) for number in range(40)]
        async with asyncio.timeout(DEADLINE_SECONDS):
            acks = await asyncio.gather(
                *(two.client.append("some-basin", "s", one_record(b), None, None) for b in bodies)
            )
            assert sorted(ack.start.seq_num for ack in acks) == list(range(40))
            found = await asyncio.gather(*(read_one(two, ack.start.seq_num) for ack in acks))
        assert found == bodies
        assert two.client._leaders.retries["busy"] > 0
        for kind, longest in two.wire.longest.items():
            assert longest <= MESSAGE_BYTES_MAX[kind]
        sent = len(two.wire.requests)

        def fill(request: pb.Request) -> None:
            request.append.records = bytes(REQUEST_BYTES_MAX[FrameKind.CALL])

        with pytest.raises(RequestTooLongError):
            _ = two.session.call(GroupId(1), 1000, fill)
        await asyncio.sleep(0)
        assert len(two.wire.requests) == sent

    in_a_pair(tmp_path, body)


async def read_one(two: Pair, seq_num: int) -> bytes:
    answer = await two.client.read(
        "some-basin",
        "s",
        ReadStart(StartKind.SEQ_NUM, seq_num),
        ReadBounds(count=1),
        refuse_at_tail=False,
        wait_ms=0,
    )
    (record,) = decoded(answer.batches[0].records)
    return bytes(record.body)


def test_a_caller_that_does_not_read_has_a_bounded_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for 200 times 0.9 MB and takes nothing: what is made for it stays below the room and
    one answer, of which the connection holds its credit; appends of others are answered, reads
    beyond the waiting line are refused without effect; and once it reads on, it gets everything."""
    monkeypatch.setattr(answer_room, "WAITING_MAX", 150)

    async def body(two: Pair) -> None:
        await two.stream("some-basin", "s")
        bodies = [random.Random(number).randbytes(900_000) for number in range(4)]
        for each in bodies:
            await two.client.append("some-basin", "s", one_record(each), None, None)
        two.wire.frozen = True
        reads = [asyncio.ensure_future(read_one(two, number % 4)) for number in range(200)]
        room = two.wire.service.room
        async with asyncio.timeout(DEADLINE_SECONDS):
            while room._waiting_count < 150 or room.taken_bytes < ROOM_BYTES_MAX - 2_000_000:
                assert room.taken_bytes <= ROOM_BYTES_MAX + 1_000_000
                await asyncio.sleep(0.01)
        assert room.taken_bytes <= ROOM_BYTES_MAX + 1_000_000
        assert (
            two.wire.far.held_bytes <= CREDIT_BYTES[FrameKind.BULK] + CREDIT_BYTES[FrameKind.CALL]
        )
        assert two.wire.service.unsent > 0, "what has no credit is held back behind it"
        with pytest.raises(HotServerError):
            await room.take(GroupId(9), 1)
        heard: list[pb.Response] = []
        other = two.node.service.session(Other(heard))
        append = pb.Request(group_id=max(two.node.host.basins), deadline_ms=60_000)
        rpc.append_to_pb(append.append, "s", one_record(b"beside"), None, None)
        data = append.SerializeToString()
        other.request(FrameKind.CALL, 1, data, len(data), OWN)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not heard:
                await asyncio.sleep(0.01)
        assert heard[0].append.start.seq_num == 4
        two.wire.read_on()
        async with asyncio.timeout(DEADLINE_SECONDS):
            found = await asyncio.gather(*reads)
        assert found == [bodies[number % 4] for number in range(200)]
        assert room._waiting_count == 0
        assert two.wire.service.unsent == 0
        # bytes that are dealt with are told in quarters of the credit
        assert room.taken_bytes <= CREDIT_BYTES[FrameKind.BULK] // 4

    in_a_pair(tmp_path, body)


class Other:
    """A caller that takes what it is answered."""

    def __init__(self, heard: list[pb.Response]) -> None:
        self._heard = heard

    def send(self, kind: FrameKind, flow: int, payload: bytes) -> None:
        self._heard.append(pb.Response.FromString(payload[HEAD.size :]))

    def waiting_bytes(self, kind: FrameKind) -> int:
        return 0

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)

    def dealt_with(self, kind: FrameKind, size: int) -> None: ...


def test_who_goes_on_asking_and_reads_nothing_is_busy_and_then_ended(tmp_path: Path) -> None:
    """Its side of the connection refuses it as busy before it holds more than the credit; what the
    node keeps for it stays below the credits too; who waits no more costs nothing any more."""

    async def body(two: Pair) -> None:
        await two.stream("some-basin", "s")
        two.wire.frozen = True
        calls: list[asyncio.Future[pb.Response]] = []
        busy = 0

        def fill(request: pb.Request) -> None:
            request.check_tail.stream = "s" * 100_000

        while busy < 10:
            call = two.session.call(GroupId(10**6), 60_000, fill)
            if call.done():
                assert isinstance(call.exception(), LinkBusyError)
                busy += 1
            else:
                calls.append(call)
            if len(calls) % 20 == 0:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert two.wire.near.held_bytes <= CREDIT_BYTES[FrameKind.CALL]
            assert len(calls) <= 100_000
        assert two.wire.service.pending <= len(calls)
        assert two.session.pending == len(calls)
        for call in calls:
            call.cancel()
        two.wire.read_on()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while two.wire.service.pending or two.session.pending or two.wire.held_bytes:
                await asyncio.sleep(0.01)
        await two.client.append("some-basin", "s", one_record(b"x"), None, None)

    in_a_pair(tmp_path, body)


def test_readers_of_one_basin_do_not_stand_before_those_of_another() -> None:
    """One group's line is long; the only read of another group is next but one."""

    async def main() -> None:
        room = AnswerRoom(asyncio.get_running_loop())
        room.put(ROOM_BYTES_MAX)
        order: list[int] = []

        async def take(group_id: int) -> None:
            await room.take(GroupId(group_id), ROOM_BYTES_MAX)
            order.append(group_id)
            room.give_back(ROOM_BYTES_MAX)

        waiting = [asyncio.ensure_future(take(7)) for _ in range(20)]
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(take(8)))
        await asyncio.sleep(0)
        waiting[0].cancel()
        room.give_back(ROOM_BYTES_MAX)
        await asyncio.gather(*waiting, return_exceptions=True)
        assert order.index(8) <= 1
        assert len(order) == 20, "all but the one that gave up"
        assert room._waiting_count == 0

    asyncio.run(main())


def test_who_asks_is_never_left_out(tmp_path: Path) -> None:
    """A request for a token, or to revoke one, that does not say who asks, or says serial 0, is
    refused; nobody being asked for a token is a word of its own."""

    async def body(two: Pair) -> None:
        await two.stream("some-basin", "s")

        async def ask(*, serial: int | None = None, off: bool = False) -> list[str]:
            told = []
            for operation in ("issue_token", "revoke_token"):

                def fill(request: pb.Request, operation: str = operation) -> None:
                    message = getattr(request, operation)
                    message.SetInParent()
                    if operation == "issue_token":
                        message.token.token_id = f"token-{serial}-{off}"
                        message.token.secret_hash = b"h" * 32
                        message.token.scope.groups.extend([True] * 6)
                    else:
                        message.token_id = "nobodys"
                    if serial is not None:
                        message.token_serial = serial
                    if off:
                        message.authentication_off.SetInParent()

                response = await two.session.call(GroupId(1), 4000, fill)
                told.append(response.refusal.code or str(response.WhichOneof("result")))
            return told

        assert await ask() == ["bad_proto", "bad_proto"]
        assert await ask(serial=0) == ["bad_proto", "bad_proto"]
        assert await ask(serial=99) == ["authn", "authn"]
        issued, revoked = await ask(off=True)
        assert issued in ("issued_token", "permission_denied", "done", "None"), issued
        assert revoked == "access_token_not_found"

    in_a_pair(tmp_path, body)
