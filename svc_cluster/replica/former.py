"""This carries out the formation of the cluster on one node. It asks the other nodes, writes down
what `formation` decides, and opens the node once it may vote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from svc_cluster.base.clock import Clock
from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import Logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.formation_report import FormationFormatError, decode_report, encode_report
from svc_cluster.model.formation import Asking, FormationRecord, FormationReport
from svc_cluster.model.places import Places
from svc_cluster.replica.callbacks import settle
from svc_cluster.replica.formation_file import FormationFile
from svc_cluster.replica.formation_rounds import Formation

ASK_SECONDS: Final = 0.1
"""Pause between two questions to one node while the cluster is being formed, at `NODES_EACH`
nodes and below; with more of them in proportion longer."""
NODES_EACH: Final = 10
HURRY_SECONDS: Final = 30.0
"""So long after its start a node asks that often, then every `PATIENT_ASK_SECONDS`."""
PATIENT_ASK_SECONDS: Final = 1.0
FORMED_ASK_SECONDS: Final = 5.0
"""The same for a formed node, which asks only the nodes that do not answer as peers."""
HURRIED_SECONDS: Final = 0.5
"""At least so long between two times at which a formed node tells the others out of turn."""
TOLD_SECONDS: Final = 60.0
"""How often a node says that it is refused, or still waits."""
WAIT_TOLD_AFTER_SECONDS: Final = 5.0
REFUSED_SECONDS: Final = 60.0
"""How long after its last attempt a node counts as refused here."""
ASKING_SECONDS: Final = 3.0
"""How long after its last report a node counts as asking now: one that is refused makes one a
second (`PATIENT_ASK_SECONDS`)."""


class FormationTransport(Protocol):
    """One question to one other node, and its answer."""

    async def form(self, peer: NodeId, report: bytes) -> bytes:
        """Raises ConnectionError, also for a node that does not know the question."""
        ...

    def part(self) -> None:
        """End every conversation of Raft that this node has begun; others follow at once."""
        ...


class Former:
    """Owner of one node's formation. `start` and `stop` once."""

    def __init__(
        self,
        formation: Formation,
        file: FormationFile,
        transport: FormationTransport,
        *,
        clock: Clock,
        log: Logger,
        is_peer_up: Callable[[NodeId], bool],
        has_space: Callable[[], bool],
        forget: Callable[[Callable[[], None]], None],
        on_raised: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        """`forget` notes that all which this directory may have promised is lost, and calls back
        once that is durable. `on_raised` is told of each place that is known from now on."""
        self.formation = formation
        self._file = file
        self._transport = transport
        self._clock = clock
        self._log = log
        self._is_peer_up = is_peer_up
        self._has_space = has_space
        self._forget = forget
        self._on_raised = on_raised
        self._tasks = Tasks(on_failure=on_failure)
        self._news = asyncio.Event()
        """Something was heard."""
        self._changed = asyncio.Event()
        """This node has something new to say; replaced at each change."""
        self._on_open: Callable[[], None] = _nothing
        self._refused_at: dict[NodeId, float] = {}
        self._heard_at: dict[NodeId, float] = {}
        """When the latest report of each node came, while whoever made it may be there."""
        self._started_at = 0.0
        self._hurried_at = float("-inf")
        self._told: tuple[str, float] = ("", 0.0)

    def start(self, on_open: Callable[[], None]) -> None:
        """`on_open` runs once, as soon as the node may vote: now, or when the cluster is formed."""
        self._on_open = on_open
        if self.formation.is_open:
            on_open()
        else:
            self._log.info("formation_begins", nodes=len(self.formation.nodes))
        self._started_at = self._clock.monotonic()
        self._told = ("", self._started_at + WAIT_TOLD_AFTER_SECONDS - TOLD_SECONDS)
        self._tasks.spawn(self._decide(), "decide on the formation")
        if not self.formation.asks_around:
            return
        for node in self.formation.nodes:
            if node != self.formation.node_id:
                self._tasks.spawn(self._ask(node), f"ask node {node} for the formation")

    async def stop(self) -> None:
        await self._tasks.cancel_all()
        await self._file.close()

    def answer(self, report: FormationReport) -> bytes:
        """Take the report of a node whose identity is proven, and tell it ours."""
        self._hear(report)
        return encode_report(self.formation.report())

    def refused(self, node_id: NodeId) -> None:
        """A node of this id was turned away because of its data directory."""
        if node_id in self.formation.nodes:
            self._refused_at[node_id] = self._clock.monotonic()

    def is_refused(self, node_id: NodeId) -> bool:
        """Whether a node of this id asks to take part and may not, at present."""
        at = self._refused_at.get(node_id)
        return at is not None and self._clock.monotonic() - at < REFUSED_SECONDS

    def left(self, node_id: NodeId, incarnation: str) -> None:
        """A conversation with a node under this incarnation is over: its process may have ended."""
        heard = self.formation.heard.get(node_id)
        if heard is not None and heard.incarnation == incarnation:
            self._heard_at.pop(node_id, None)

    def asking(self) -> dict[NodeId, Asking]:
        """The nodes that ask to take part with an empty directory, or did until a while ago."""
        now, gone = self._clock.monotonic(), float("-inf")
        found: dict[NodeId, Asking] = {}
        for node, report in sorted(self.formation.asking().items()):
            if self.is_refused(node):
                at = self._heard_at.get(node, gone)
                is_now = now - at < ASKING_SECONDS
                found[node] = Asking(report.incarnation, at, is_now, report.newest)
        return found

    def learn(self, places: Places) -> None:
        """Another node knows of these places; this one soon will, too."""
        self.formation.learn(places)
        self._news.set()

    def offer(self, record: FormationRecord) -> None:
        """A cluster has let this directory in, and this is its formation."""
        self.formation.offered = record
        self._news.set()

    def look(self) -> None:
        """The catalog may know more."""
        self._news.set()

    def hurry(self) -> None:
        """Tell the others soon what this node knows: one of them lags behind."""
        now = self._clock.monotonic()
        if now - self._hurried_at >= HURRIED_SECONDS:
            self._hurried_at = now
            self._tell_others()

    def _tell_others(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    # -- asking

    async def _ask(self, peer: NodeId) -> None:
        while True:
            changed = self._changed
            if not (self.formation.is_formed and self._is_peer_up(peer)):
                try:
                    answer = await self._transport.form(
                        peer, encode_report(self.formation.report())
                    )
                    self._hear(decode_report(answer))
                except (ConnectionError, FormationFormatError) as cause:
                    self._log.debug("formation_unanswered", peer=peer, cause=str(cause)[:200])
            elif peer in self.formation.heard:
                self.formation.forget(peer)
                self._news.set()
            try:
                async with asyncio.timeout(self._pause()):
                    await changed.wait()
            except TimeoutError:
                continue

    def _pause(self) -> float:
        if self.formation.is_formed:
            return FORMED_ASK_SECONDS
        if self.formation.refusal() is not None:
            return PATIENT_ASK_SECONDS
        hurries = self._clock.monotonic() - self._started_at < HURRY_SECONDS
        pause = ASK_SECONDS if hurries else PATIENT_ASK_SECONDS
        return pause * max(1.0, len(self.formation.nodes) / NODES_EACH)

    def _hear(self, report: FormationReport) -> None:
        if report.node_id not in self.formation.nodes:
            return
        self.formation.hear(report)
        self._heard_at[report.node_id] = self._clock.monotonic()
        if self.formation.is_formed and not self.formation.admits(
            report.node_id, report.incarnation
        ):
            self.refused(report.node_id)
        self._news.set()

    # -- deciding

    async def _decide(self) -> None:
        await self._file.even_out()
        while True:
            self._news.clear()
            await self._advance()
            self._tell()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _advance(self) -> None:
        formation = self.formation
        while (record := formation.next_record()) is not None:
            before, was_open = formation.record, formation.is_open
            if was_open and record.places == before.places and not self._has_space():
                return  # it goes on as before: what it would write down can be learned again
            if record.ordinal > before.ordinal and not record.joined:
                # what its predecessor promised is forgotten here, and the log will say so; one that
                # was removed had promised nothing any more
                await self._forgotten()
            await self._file.write(record)
            formation.written(record)
            if record.stage is not before.stage:
                self._log.info("formation_" + record.stage.name.lower(), round=record.round)
            if record.places != before.places:
                self._log.info("places_known", places=[str(each) for each in record.places])
                self._on_raised()
            if formation.is_open and not was_open:
                self._on_open()
            self._tell_others()

    async def _forgotten(self) -> None:
        noted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._forget(partial(settle, noted, None))
        await noted

    def _tell(self) -> None:
        """One line when it changes, and one a minute, about what keeps this node out."""
        reason = self.formation.refusal()
        waits = None if reason is not None or self.formation.is_open else self.formation.waits_for()
        text = reason or waits or ""
        known, at = self._told
        now = self._clock.monotonic()
        is_due = now - at >= TOLD_SECONDS
        if not text or not (is_due or (reason is not None and reason != known)):
            return
        self._told = (text, now)
        if reason is not None:
            self._log.error("node_refused", reason=reason)
        else:
            self._log.warning("formation_waits", reason=text)


def _nothing() -> None:
    return
