"""A cluster of real nodes and gateways on the simulated world, run through its phases and judged.

A run has a safety phase under faults, then everything is healed and the cluster must become whole
within a bound (liveness); at the end every stream is read completely and its history is checked.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Any, TypeVar

from svc_cluster.base.ids import CATALOG_GROUP, GroupId, NodeId
from tests.linearizability.checker import check
from tests.linearizability.history import Outcome, SeenRecord, to_line
from tests.simulation.api import ConfiguringClient
from tests.simulation.backend_client import BackendClient, SimGateway
from tests.simulation.catalog_mover import CatalogMover
from tests.simulation.checkers.raft import InvariantError, RaftChecker
from tests.simulation.checkers.usage import check_replica
from tests.simulation.checkers.votes import VoteChecker
from tests.simulation.churn import Churner
from tests.simulation.clock import DRIFT_MAX, LOOK_S, SimClock
from tests.simulation.configs import node_config
from tests.simulation.configurer import configurers
from tests.simulation.disk import DiskProfile, SimDisk
from tests.simulation.drainer import Drainer
from tests.simulation.http_client import HttpClient
from tests.simulation.knobs import changed
from tests.simulation.loop import SimLoop, run
from tests.simulation.mover import LIVENESS_S, Mover
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import ADVERSARIAL, NetworkProfile, SimNetwork
from tests.simulation.node import SimNode, World
from tests.simulation.options import Options
from tests.simulation.releases import OLD, PARKED
from tests.simulation.report import ErrorLog, Report, SimulationFailedError
from tests.simulation.store import StallingStore
from tests.simulation.trace import Trace
from tests.simulation.workload import (
    Client,
    NoEffectError,
    Recorder,
    SimClient,
    StreamHistory,
    UnknownOutcomeError,
)

__all__ = [
    "LIVENESS_S",
    "Report",
    "SimCluster",
    "SimulationFailedError",
    "in_simulation",
    "simulate",
]

T = TypeVar("T")

UNKNOWN_SETTLE_S = 12.0
"""Longer than every deadline of gateways and nodes: nothing of before is under way any more."""


class SimCluster:
    """Builds the world, runs it through its phases, and checks it."""

    def __init__(
        self,
        loop: SimLoop,
        seed: int,
        options: Options,
        trace: Trace,
        errors: list[str],
    ) -> None:
        """`errors` fails the run as soon as there is something in it."""
        self.seed = seed
        self.options = options
        self.loop = loop
        self.trace = trace
        self.checker = RaftChecker()
        self.votes = VoteChecker()
        self.recorder = Recorder(seed)
        self.report = Report(seed, str(options))
        self.errors = errors
        self.expected: tuple[str, ...] = ()
        """How error lines begin that the run brings about on purpose."""
        self._rng = self._stream_of("nemesis")
        profile = replace(
            ADVERSARIAL if options.datagrams else NetworkProfile(),
            bytes_per_s=options.bytes_per_s,
            latency_max_s=options.latency_max_s,
        )
        self.network = SimNetwork(loop, self._stream_of("network"), profile)
        self.nemesis = Nemesis(loop, options, trace, self.network, self._rng, errors)
        self.nodes = [self._make_node(number) for number in range(1, options.nodes + 1)]
        for node in self.nodes[: options.older_nodes]:
            node.knows(OLD)
        self.gateways = [self._make_gateway(number) for number in range(options.gateways)]
        self.apis: list[ConfiguringClient] = [
            HttpClient(gateway) if options.http else BackendClient(gateway)
            for gateway in self.gateways
        ]
        self.nemesis.nodes, self.nemesis.gateways = self.nodes, self.gateways
        self.nemesis.look = self.look
        self.nemesis.not_whole = self.not_whole
        self.nemesis.on_disk_lost = self.checker.forget_disk
        self.checker.is_harmed = self.nemesis.is_harmed

    def _stream_of(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{what}")

    def _clock(self, rng: random.Random) -> SimClock:
        return SimClock(
            self.loop,
            drift=rng.uniform(-DRIFT_MAX, DRIFT_MAX),
            offset_s=rng.uniform(0, 10_000),
            wall_offset_ms=rng.choice((0, rng.randint(-60_000, 60_000))),
            look_s=LOOK_S,
        )

    def _make_node(self, number: int) -> SimNode:
        options, rng = self.options, self._stream_of(f"node {number}")
        profile = DiskProfile()
        if options.slow_disks:
            profile = DiskProfile(latency_min_s=0.005, latency_max_s=0.08, stall_share=0.01)
        return SimNode(
            World(self.loop, self.network),
            node_config(options, number),
            self._clock(rng),
            SimDisk(self.loop, rng, profile),
            StallingStore(self.loop, rng),
            rng,
            datagrams=options.datagrams,
            on_fatal=self.nemesis.died,
            on_sent=self.votes.sent,
            on_destroyed=self.checker.forget_replica,
        )

    def _make_gateway(self, number: int) -> SimGateway:
        rng = self._stream_of(f"gateway {number}")
        nodes = [NodeId(n) for n in range(1, self.options.nodes + 1)]
        return SimGateway(
            self.loop,
            self.network,
            self._clock(rng),
            f"gateway{number}",
            nodes,
            rng,
            deadline_seconds=self.options.deadline_seconds,
        )

    # The phases

    def start(self) -> asyncio.Task[None]:
        """All nodes, and the task that watches the invariants."""
        for node in self.nodes:
            node.start()
        return self.loop.create_task(self._watch(), name="watch")

    async def run(self) -> Report:
        watch = self.start()
        await self.guarded(self.set_up(), watch)
        clients = [
            Client(
                self.recorder,
                self.apis,
                self.options.workload,
                self._stream_of(f"client {number}"),
            )
            for number in range(self.options.workload.clients)
        ]
        targets = self.options.workload.configured
        changing = configurers(self.apis, self._stream_of("configurers"), targets)
        movers = [Mover(self)] if self.options.moves else []
        movers += [CatalogMover(self)] if self.options.catalog_moves else []
        drainers = [Drainer(self)] if self.options.drains else []
        workers: list[Any] = [*clients, *self._churners(), *changing, *movers, *drainers]
        working = [
            self.loop.create_task(worker.run(), name=f"client {number}")
            for number, worker in enumerate(workers)
        ]
        self.nemesis.is_changing = lambda: any(mover.is_changing() for mover in movers)
        self.nemesis.upgrade_later(self.nodes[: self.options.older_nodes])
        await self.guarded(self.nemesis.torment(), watch, *working)
        self.nemesis.heal()
        for worker in workers:
            worker.stopping = True
        await self.guarded(self.nemesis.mended(), watch)
        for mover in movers:
            await self.guarded(mover.until("no change is open", mover.is_still), watch)
        await self.guarded(self.settle(working), watch)
        finals = [await self.guarded(self.read_all(h), watch) for h in self.recorder.streams]
        watch.cancel()
        for history, final in zip(self.recorder.streams, finals, strict=True):
            self.judge(history, final)
        return self._finish()

    def _churners(self) -> list[Churner]:
        workload = self.options.workload
        names = [
            (f"stream {n}", "basin-000", f"churned-{n}", False)
            for n in range(workload.churned_streams)
        ]
        names += [
            (f"basin {n}", f"churned-{n:03}", "stream", True)
            for n in range(workload.churned_basins)
        ]
        return [
            Churner(
                self.recorder, self.apis, self._stream_of(f"churner {what}"), basin, stream, whole
            )
            for what, basin, stream, whole in names
        ]

    async def guarded(self, main: Any, *others: asyncio.Task[Any]) -> Any:
        """Wait for `main`; what fails beside it fails the run at once."""
        task = self.loop.create_task(main, name="phase")
        pending: list[asyncio.Task[Any]] = [task, *others]
        while not task.done():
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for other in others:
                if other.done() and not other.cancelled() and other.exception() is not None:
                    task.cancel()
                    raise other.exception()  # type: ignore[misc]
            pending = [one for one in pending if not one.done()]
        return task.result()

    async def set_up(self) -> None:
        """Basins and streams, made while nothing is wrong yet."""
        for basin in range(self.options.basins):
            await self.insist(lambda api, name=f"basin-{basin:03}": api.create_basin(name))
            for stream in range(self.options.streams):
                names = f"basin-{basin:03}", f"stream-{stream}"
                await self.insist(lambda api, names=names: api.create_stream(*names))
                self.recorder.stream(*names)

    async def insist(self, operation: Any) -> Any:
        deadline = self.loop.time() + LIVENESS_S
        while True:
            api = self._rng.choice(self.apis)
            try:
                return await operation(api)
            except (NoEffectError, UnknownOutcomeError) as failure:
                if self.loop.time() > deadline:
                    raise InvariantError(f"liveness: still refused: {failure}") from failure
                await asyncio.sleep(0.2)

    async def _watch(self) -> None:
        """The invariants, many times a second."""
        while True:
            await asyncio.sleep(0.1)
            self.look()

    def look(self) -> None:
        for node in self.nodes:
            if node.alive:
                self.checker.observe(node.node_id, node.incarnation, node.probe())
        rests = (node.node.services.rest for node in self.nodes if node.node is not None)
        self.report.rested += any(rest.asleep for rest in rests)
        if self.votes.broken:
            raise InvariantError(self.votes.broken[0])
        for error in self.errors:
            if not error.startswith(self.expected) and not self.nemesis.explains(error):
                raise InvariantError(f"no-error-lines: {error}")
        if self.network.stats.too_long:
            raise InvariantError("messages-fit: one was sent that no receiver takes")

    # Liveness and the end

    async def settle(self, working: list[asyncio.Task[Any]]) -> None:
        """Every pending request is answered, and the cluster becomes whole."""
        deadline = self.loop.time() + LIVENESS_S
        _, pending = await asyncio.wait(working, timeout=LIVENESS_S)
        for task in working:
            if task in pending:
                raise InvariantError(f"liveness: {task.get_name()} was never answered")
            task.result()
        while (why := self.not_whole()) is not None:
            if self.loop.time() > deadline:
                raise InvariantError(f"liveness: {LIVENESS_S} s after the healing: {why}")
            await asyncio.sleep(0.1)
        self.compare_stores()
        self.check_usage()
        self.trace.fact("whole")
        await asyncio.sleep(UNKNOWN_SETTLE_S)
        for history in self.recorder.streams:
            await self.insist(lambda api, history=history: self.barrier(api, history))

    async def barrier(self, api: SimClient, history: StreamHistory) -> None:
        client = self.recorder.new_client()
        items = self.recorder.items(self._rng, client, 1, 0)
        append = await self.recorder.append(api, history, client, items)
        if append.outcome is not Outcome.OK:
            raise NoEffectError(f"the barrier: {append}")

    def not_whole(self) -> str | None:
        """What is missing: every node up, one leader a group, all replicas at one state."""
        groups: dict[GroupId, list[Any]] = {}
        for node in self.nodes:
            if node.node is None:
                return f"node {node.node_id} is down"
            for row in node.node.host.probe():
                groups.setdefault(row["group_id"], []).append((node.node_id, row))
        for group_id, rows in sorted(groups.items()):
            states = {(row["applied_index"], row["digest"]) for _, row in rows}
            serving = [node for node, row in rows if row["serving"]]
            if len(serving) != 1 or len(states) != 1 or len(rows) < 3:
                short = [
                    {
                        key: row[key]
                        for key in ("role", "term", "commit_index", "applied_index", "last_index")
                    }
                    for _, row in rows
                ]
                return f"group {group_id}: serving {serving}, {short}"
        return None

    def compare_stores(self) -> None:
        """Replicas that are at one index hold the same pairs, byte for byte. The digest that they
        keep says what was applied, this says what is there."""
        seen: dict[tuple[GroupId, int], tuple[int, dict[bytes, bytes]]] = {}
        for node in self.nodes:
            for group_id, applied_index, pairs in node.contents():
                first, known = seen.setdefault((group_id, applied_index), (node.node_id, pairs))
                if known != pairs:
                    odd = sorted(dict(known.items() ^ pairs.items()))
                    raise InvariantError(
                        f"same-index-same-pairs: group {group_id} at {applied_index}: nodes "
                        f"{first} and {node.node_id} differ in {len(odd)} keys: {odd[:3]}"
                    )

    def check_usage(self) -> None:
        """What every replica has counted adds up."""
        reported = [gateway.usage for gateway in self.gateways]
        for node in self.nodes:
            for group_id, _, pairs in node.contents():
                if group_id != CATALOG_GROUP:
                    check_replica(pairs, reported)

    async def read_all(self, history: StreamHistory) -> list[SeenRecord]:
        """The complete stream, read in pages while nobody writes; each page is an operation too."""
        client = self.recorder.new_client()
        final: list[SeenRecord] = []
        while True:
            at = len(final)
            read = await self.insist(lambda api, at=at: self._page(api, history, client, at))
            for place in range(at, read.first):
                if place not in history.known:
                    raise InvariantError(f"trimmed-as-asked: nobody asked to trim {place}")
                final.append(history.known[place])
            final.extend(read.records)
            if len(final) >= (read.tail or 0):
                return final
            if not read.records:
                raise InvariantError(f"read-to-the-end: nothing at {at} below {read.tail}")

    async def _page(self, api: SimClient, history: StreamHistory, client: int, at: int) -> Any:
        read = await self.recorder.read(api, history, client, at, 1_000)
        if read is None:
            raise NoEffectError("the final read")
        return read

    def judge(self, history: StreamHistory, final: list[SeenRecord]) -> None:
        history.acked.final(final)
        verdict = check(history.operations, final)
        if not verdict.ok:
            raise InvariantError(f"linearizable: {history.basin}/{history.stream}:\n{verdict}")

    def _finish(self) -> Report:
        report, counts = self.report, self.recorder.counts
        self.look()
        report.faults, report.crashes = self.nemesis.faults, self.nemesis.crashes
        report.virtual_s = self.loop.time() - 1_000.0
        report.acked, report.unknown = counts.acked, counts.unknown
        report.refused = counts.refused
        report.reads, report.failed_reads = counts.reads, counts.failed_reads
        report.trims, report.event_batches = counts.trims, counts.event_batches
        report.session_batches, report.retries = counts.session_batches, counts.retries
        report.lives = counts.lives
        report.amid_changes = self.nemesis.amid_changes
        report.repaired = sum(node.repaired for node in self.nodes)
        report.snapshots = sum(node.snapshots_installed for node in self.nodes)
        report.elections, report.looks = self.checker.elections, self.checker.looks
        report.events = self.loop.events_run
        if self.trace.wants_detail:
            for history in self.recorder.streams:
                for operation in history.operations:
                    self.trace.fact("op", history.basin, history.stream, to_line(operation))
        self.trace.fact("end", report.acked, report.unknown, report.reads, report.events)
        report.digest = self.trace.digest
        report.trace = self.trace.data() if self.trace.keep else b""
        return report


def in_simulation(
    seed: int,
    options: Options,
    main: Callable[[SimCluster], Awaitable[T]],
    *,
    keep_trace: bool = False,
    sink: Any = None,
    expected: Collection[str] = (),
) -> T:
    """`main` with a cluster that is not started yet; error lines that are not `expected`, by their
    names, fail it. Raises SimulationFailedError with everything
    needed to run it again."""
    traced = keep_trace or sink is not None
    logger = logging.getLogger("svc_cluster")
    before = logger.level, logger.propagate, logger.handlers[:]

    async def inside(loop: SimLoop) -> T:
        trace = Trace(loop.time, keep=keep_trace, sink=sink)
        handler = ErrorLog(trace, expected)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO if traced else logging.ERROR)
        logger.propagate = False
        return await main(SimCluster(loop, seed, options, trace, handler.errors))

    try:
        with changed(options.constants):
            return run(inside)
    except Exception as failure:
        raise SimulationFailedError(
            f"seed {seed} failed: {type(failure).__name__}: {failure}\noptions: {options}"
        ) from failure
    finally:
        logger.level, logger.propagate, logger.handlers[:] = before[0], before[1], before[2]
        logger.manager._clear_cache()  # type: ignore[attr-defined]


def _errors_of(options: Options) -> tuple[str, ...]:
    """What a run with these options says as an error, as it should."""
    parked = PARKED if options.older_nodes else ()
    return (*parked, "node_refused") if options.loses_disks else parked


def simulate(
    seed: int,
    options: Options | None = None,
    *,
    keep_trace: bool = False,
    sink: Any = None,
) -> Report:
    """Run one seed through its phases; its options are drawn unless they are given."""
    options = options or Options.draw(random.Random(f"{seed}/options"))
    return in_simulation(
        seed,
        options,
        SimCluster.run,
        keep_trace=keep_trace,
        sink=sink,
        expected=_errors_of(options),
    )
