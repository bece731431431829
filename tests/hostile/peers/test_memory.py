"""What strangers and callers cost a node that holds what they send or do not take."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter

import pytest

from svc_cluster._pb.cluster.v1 import replica_pb2
from svc_cluster.link.acceptor import UNPROVEN_MAX
from svc_cluster.link.calls import Verb, encode
from svc_cluster.link.credit import encode_window
from svc_cluster.link.frame import HEADER, FrameKind
from svc_cluster.replica.memory_budget import NODE_BYTES_MAX
from tests.hostile.conftest import Measured
from tests.hostile.peers import words as hostile
from tests.hostile.peers.stranger import OPEN, Stranger, frame
from tests.hostile.peers.victim import BASIN, STREAM, Victim
from tests.hostile.scale import MIB, SCALE
from tests.own_processes import node_pids

CALLER_BYTES = 15 * MIB
KEPT_BYTES_MAX = 16 * MIB
"""Of callers that have proved nothing, however many and whatever they send."""

DEAF_BYTES_MAX = NODE_BYTES_MAX * 3 // 4
"""Of callers that have proved themselves and read nothing, however many and whatever they ask: less
than the node's budget for others. One caller of the masses keeps some 110 MiB, three 170 to 200,
and six no more than three."""

LONG = {
    frame(FrameKind.GREETING, bytes(CALLER_BYTES)): "are allowed",
    frame(FrameKind.CALL, bytes(CALLER_BYTES)): "are allowed",
    frame(FrameKind.CALL, bytes(4096)) * (CALLER_BYTES // 4096): "before the greetings",
    frame(FrameKind.GREETING, bytes(4096)) * (CALLER_BYTES // 4096): "not a greeting",
}
SHORT = {
    frame(FrameKind.PING, b"?"): "before the greetings",
    frame(7, b""): "unknown kind",
    b"GET / HTTP/1.1\r\nhost: x\r\n\r\n": "are allowed",
}
CROWDED = "too many callers have not proved themselves"
TOLD = 5
UNFINISHED = (b"", HEADER.pack(4096, FrameKind.GREETING, 0, 0, 0) + bytes(4000))


async def _answers(port: int, words: dict[bytes, str], callers: int) -> Counter[str]:
    """So many callers at once say these in turn; how many were refused with a reason, how many
    saw no more than an end, and how many came while there were as many as may be."""
    allowed = {"closed"} | ({CROWDED} if callers > UNPROVEN_MAX else set())

    async def one(said: bytes, reason: str) -> str:
        async with await Stranger.call(port) as stranger:
            stranger.say(said)
            answer = await stranger.gone()
        assert reason in answer or answer in allowed, (said[:20], answer)
        return answer if answer in allowed else reason

    kinds = itertools.islice(itertools.cycle(words.items()), callers)
    return Counter(await asyncio.gather(*(one(*kind) for kind in kinds)))


def test_whoever_proves_nothing_is_told_why_or_runs_out_of_time(victim: Victim) -> None:
    """What is too long, of another kind, of another protocol is refused with a reason; silence and
    half a claim end when their time is up; a node beside it listens meanwhile."""
    facts = victim.facts
    port = facts.ports[1]

    async def main() -> None:
        for said, reason in (LONG | SHORT).items():
            # one that is cut off while it speaks may see no more than an end
            answers = await _answers(port, {said: reason}, TOLD)
            assert answers[reason], (said[:20], answers)
        held = [await Stranger.call(port) for _ in range(UNPROVEN_MAX)]
        for number, stranger in enumerate(held):
            stranger.say(UNFINISHED[number % len(UNFINISHED)])
        async with await Stranger.call(facts.ports[2]) as elsewhere:
            assert await elsewhere.prove(hostile.gateway(facts)) == OPEN
        for stranger in held:
            assert await stranger.gone() == "closed"
            await stranger.__aexit__()
        await victim.still_serves()

    asyncio.run(main())


def test_callers_that_prove_nothing_cost_nothing(victim: Victim, measured: Measured) -> None:
    """15 MiB of each, in one frame, in frames of every kind, in claims of 4 KiB, from as many as
    may be unproven at once and more: the node keeps less than 16 MiB of it at any time."""
    pid = node_pids(victim.cluster)[1]

    async def main() -> None:
        before = hostile.forget_peak(pid)
        answers = await _answers(victim.facts.ports[1], LONG, UNPROVEN_MAX * SCALE)
        kept = hostile.memory_bytes(pid) - before
        measured(
            node_mib=hostile.memory_bytes(pid) // MIB,
            refusals=sum(answers.values()),
            kept_mib=round(kept / MIB, 1),
            callers=UNPROVEN_MAX * SCALE,
            crowded=answers[CROWDED],
        )
        assert answers.total() - answers[CROWDED] >= UNPROVEN_MAX, answers
        assert kept < KEPT_BYTES_MAX, f"{kept} bytes for callers that had proved nothing"
        await victim.still_serves()

    asyncio.run(main())


@pytest.mark.parametrize("lies", [False, True])
def test_a_caller_that_never_reads_costs_a_bounded_amount(
    victim: Victim, measured: Measured, lies: bool
) -> None:
    """One asks for reads of 1 MiB, some for small things in masses, one as a node for the
    formation; they take nothing of it, or even say to have dealt with all of it: the node's memory
    stays bounded, and others are served meanwhile."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        leader = await victim.cluster.wait_leader(BASIN)
        pid = node_pids(victim.cluster)[leader]
        await victim.fill("large", 4 * MIB)
        read = replica_pb2.Request(group_id=group["group_id"], deadline_ms=20_000)
        read.read.stream, read.read.clamp = "large", True
        small = replica_pb2.Request(group_id=group["group_id"], deadline_ms=20_000)
        small.check_tail.stream = STREAM
        report = hostile.report(3, facts.incarnations[3])
        port = facts.ports[leader]
        honest = hostile.memory_bytes(pid, "VmRSS")
        peak = hostile.forget_peak(pid)
        async with (
            await Stranger.call(port, deaf=True) as reads,
            await Stranger.call(port, deaf=True) as forms,
            contextlib.AsyncExitStack() as stack,
        ):
            masses = [
                await stack.enter_async_context(await Stranger.call(port, deaf=True))
                for _ in range(SCALE)
            ]
            for stranger, claim in (
                (reads, hostile.gateway(facts)),
                (forms, hostile.proof(facts, 3)),
                *((mass, hostile.gateway(facts)) for mass in masses),
            ):
                stranger.greet(stranger.claim(claim))
            for number in range(2_000 * SCALE):
                reads.ask(number, read)
                if lies:
                    guess = encode_window(FrameKind.BULK, MIB * (number + 1) // 4)
                    reads.say(frame(FrameKind.WINDOW, guess))
            for number, mass in itertools.product(range(60_000), masses):
                mass.ask(number, small, FrameKind.CALL if number % 5 else FrameKind.URGENT)
                if number % 2000 == 0:
                    await asyncio.sleep(0)
            for number in range(20_000 * SCALE):
                forms.message(FrameKind.CALL, encode(Verb.FORM, number, report))
            for stranger in (reads, forms, *masses):
                await stranger.said()
            await victim.still_serves()
            grown = hostile.memory_bytes(pid) - max(honest, peak)
        measured(node_mib=hostile.memory_bytes(pid) // MIB, kept_mib=grown // MIB)
        assert grown < DEAF_BYTES_MAX, f"{grown // MIB} MiB for callers that read nothing"
        await victim.still_serves()

    asyncio.run(main())


VANISHING = 40 * SCALE
WAITS = 50
LEFT_BEHIND_BYTES_MAX = 8 * MIB


def test_gateways_that_disappear_leave_nothing_behind(victim: Victim, measured: Measured) -> None:
    """Again and again many of them wait for records that do not come, and are gone with a reset:
    the node forgets all of it, and takes no more memory the third time than the second."""
    facts = victim.facts

    async def main() -> None:
        _, group = await victim.basin_group()
        leader = await victim.cluster.wait_leader(BASIN)
        pid = node_pids(victim.cluster)[leader]
        wait = replica_pb2.Request(group_id=group["group_id"], deadline_ms=60_000)
        wait.read.stream, wait.read.wait_ms = STREAM, 60_000
        wait.read.start_value, wait.read.clamp = 10**6, True

        async def come_and_go() -> None:
            stranger = await Stranger.call(facts.ports[leader])
            assert await stranger.prove(hostile.gateway(facts)) == OPEN
            for number in range(WAITS):
                stranger.ask(number, wait)
            assert await stranger.listens() == OPEN
            assert not stranger.answers, "they wait for what comes"
            await stranger.vanish()

        sizes = []
        for _ in range(3):
            for _ in range(VANISHING // 20):
                await asyncio.gather(*(come_and_go() for _ in range(20)))
            await victim.still_serves()
            sizes.append(hostile.memory_bytes(pid, "VmRSS"))
        measured(node_mib=hostile.memory_bytes(pid) // MIB, kept_mib=(sizes[2] - sizes[1]) // MIB)
        assert sizes[2] - sizes[1] < LEFT_BEHIND_BYTES_MAX, sizes

    asyncio.run(main())
