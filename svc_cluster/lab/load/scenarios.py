"""The named scenarios of `svc-cluster bench`: what each asks of a cluster, as data."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from svc_cluster.codec.batch_rules import METERED_BYTES_MAX

STAMP_BYTES: Final = 12
"""Six bytes of mark and six of microseconds: a multiple of three, so that base64 has them apart."""
_METERED_OVERHEAD: Final = 8

Kind = Literal["append", "session", "read", "read_one", "read_session", "follow"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What a number of connections do alike, at the same time as the other parts of a phase."""

    name: str
    kind: Kind
    size: int = 1024
    """Bytes of a record's body, at random."""
    batch: int = 1
    connections: int = 1
    window: int = 32
    """Batches of a session on their way."""
    rate: float | None = None
    """Requests a second of all connections together (open loop); None: the next one when the one
    before is answered (closed loop)."""
    encoding: Literal["json", "protobuf"] = "json"
    """The form of bodies; a follower in JSON gets server-sent events, in protobuf a session."""
    stamped: bool = False
    """Whether records say when they were due, for followers to tell how long they took."""
    streams: int = 1
    place: str = ""
    """Parts of one place share their streams; those of no place are filled."""
    other_basin: bool = False

    @property
    def metered_bytes(self) -> int:
        """What one batch counts as."""
        return self.batch * (self.size + _METERED_OVERHEAD)

    @property
    def trouble(self) -> str | None:
        """Why it cannot be, in a sentence; None: it can."""
        if self.stamped and self.size < STAMP_BYTES:
            return f"bodies of {self.size} bytes have no room for a stamp of {STAMP_BYTES}"
        if self.kind in ("append", "session") and self.metered_bytes > METERED_BYTES_MAX:
            return (
                f"a batch of {self.batch} records of {self.size} bytes has {self.metered_bytes} "
                f"metered bytes: an append holds at most {METERED_BYTES_MAX}"
            )
        return None


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Phases one after the other, each with its parts at the same time."""

    name: str
    about: str
    phases: tuple[tuple[Part, ...], ...]
    seconds: float = 20.0
    processes: int = 1
    """Client processes that the connections are spread over."""
    fill_mib: float = 0.0
    """What every stream holds before anything is measured, but those with a place of their own."""
    fill_batch: int = 1000
    fill_size: int = 1000
    sync_delay_ms: float = 0.0
    """Added to every sync of every process; only with a cluster of the scenario's own."""
    read_delay_ms: float = 0.0
    """Added to every read of a file, with nothing of the data in any cache; as above."""

    @property
    def trouble(self) -> str | None:
        """Why it cannot be, in a sentence; None: it can."""
        parts = [part for phase in self.phases for part in phase]
        if self.fill_mib:
            content = Part(name="fill", kind="append", batch=self.fill_batch, size=self.fill_size)
            parts.append(content)
        return next((part.trouble for part in parts if part.trouble is not None), None)

    def changed(
        self,
        changes: dict[str, float],
        seconds: float | None = None,
        processes: int | None = None,
    ) -> Scenario:
        """The same with other values of the first part of each phase, by name. What is read is
        filled as that part has it."""
        phases = tuple(
            (msgspec.structs.replace(one, **changes), *rest) for one, *rest in self.phases
        )
        first = phases[0][0]
        fills = {"size": "fill_size", "batch": "fill_batch"}
        content = {
            fills[name]: value
            for name, value in changes.items()
            if name in fills and first.kind.startswith("read")
        }
        return msgspec.structs.replace(
            self,
            phases=phases,
            seconds=self.seconds if seconds is None else seconds,
            processes=self.processes if processes is None else processes,
            **content,
        )

    def scaled(self, scale: float) -> Scenario:
        """The same with so many times the data, followers, streams and connections, at least one
        of each: for a quick look."""

        def less(count: int) -> int:
            return max(1, int(count * scale))

        def smaller(part: Part) -> Part:
            return msgspec.structs.replace(
                part, connections=less(part.connections), streams=less(part.streams)
            )

        phases = tuple(tuple(smaller(part) for part in phase) for phase in self.phases)
        return msgspec.structs.replace(self, phases=phases, fill_mib=self.fill_mib * scale)


def _unary(connections: int, **more: object) -> Part:
    return msgspec.structs.replace(
        Part(name="append", kind="append", connections=connections), **more
    )


def _one(name: str, about: str, part: Part, processes: int = 1, **more: object) -> Scenario:
    scenario = Scenario(name=name, about=about, phases=((part,),), processes=processes)
    return msgspec.structs.replace(scenario, **more)


_WIDE: Final = Part(name="append", kind="append", size=100, batch=100, connections=64)
_KIB_BATCHES: Final = Part(name="append", kind="append", batch=100, connections=16)
_SESSION: Final = Part(name="session", kind="session", batch=1000, window=8, encoding="protobuf")
_ONE_OF_MANY: Final = Part(name="read", kind="read_one", connections=16, size=100)

_ALL: Final = (
    *(
        _one(f"unary-{number}", f"Appends of 1 KiB, {number} at a time", _unary(number), processes)
        for number, processes in ((1, 1), (16, 1), (64, 2), (256, 2))
    ),
    _one(
        "unary-open",
        "Appends of 1 KiB, 1,000 a second whatever the answers do",
        _unary(64, rate=1000.0),
    ),
    _one(
        "unary-64-slow-disk",
        "Appends of 1 KiB, 64 at a time, with 2 ms more for every sync (strace)",
        _unary(64),
        2,
        sync_delay_ms=2.0,
    ),
    _one("batches-json", "Batches of 100 x 100 B, JSON, 64 at a time", _WIDE, 2, seconds=60.0),
    _one(
        "batches-protobuf",
        "Batches of 100 x 100 B, protobuf, 64 at a time",
        msgspec.structs.replace(_WIDE, encoding="protobuf"),
        2,
        seconds=60.0,
    ),
    _one("batches-kib", "Batches of 100 x 1 KiB, JSON, 16 at a time", _KIB_BATCHES, 2),
    _one("session", "One append session with 1 MiB batches", _SESSION),
    Scenario(
        name="flat-out",
        about="One session as fast as it goes, read live beside it, then from the start",
        phases=(
            (
                msgspec.structs.replace(_SESSION, name="write", stamped=True),
                Part(name="live", kind="follow", encoding="protobuf"),
            ),
            (Part(name="catch-up", kind="read_session", encoding="protobuf"),),
        ),
        processes=2,
    ),
    _one(
        "read-json",
        "Read from the start in portions, JSON",
        Part(name="read", kind="read", size=1000),
        fill_mib=128.0,
    ),
    _one(
        "read-session",
        "Read from the start in a session",
        Part(name="read", kind="read_session", size=1000, encoding="protobuf"),
        fill_mib=128.0,
    ),
    _one(
        "read-one",
        "One record at random out of batches of 1,000, 16 at a time",
        _ONE_OF_MANY,
        fill_mib=50.0,
        fill_size=100,
    ),
    Scenario(
        name="follow",
        about="One follower of 1,000 records a second",
        phases=(
            (
                _unary(64, rate=1000.0, stamped=True),
                Part(name="follow", kind="follow", encoding="protobuf"),
            ),
        ),
        processes=2,
    ),
    Scenario(
        name="followers",
        about="2,000 followers by server-sent events, 10 records a second",
        phases=(
            (
                _unary(1, rate=10.0, stamped=True, size=100),
                Part(name="followers", kind="follow", connections=2000),
            ),
        ),
        processes=2,
    ),
    Scenario(
        name="beside-bulk",
        about="Small appends, one at a time, beside sessions of 20 MiB/s",
        phases=(
            (
                _unary(1, size=100),
                Part(
                    name="bulk",
                    kind="session",
                    batch=100,
                    rate=200.0,
                    encoding="protobuf",
                    place="bulk",
                ),
            ),
        ),
        processes=2,
        seconds=60.0,
    ),
    Scenario(
        name="cold-read",
        about="Appends in one basin, alone and beside first reads of another's data, 5 ms each",
        phases=(
            (_unary(16, other_basin=True, place="beside"),),
            (
                _unary(16, other_basin=True, place="beside"),
                Part(name="read", kind="read", size=1000, connections=4),
            ),
        ),
        fill_mib=256.0,
        read_delay_ms=5.0,
    ),
    _one("deep-1", "unary-1 with 5 GiB in the stream", _unary(1), fill_mib=5120.0),
    _one("deep-64", "unary-64 with 5 GiB in the stream", _unary(64), 2, fill_mib=5120.0),
    _one("streams", "unary-64 over 10,000 streams", _unary(64, streams=10_000), 2),
    _one(
        "long",
        "Appends of 10 KiB for 10 minutes: the last minute against the first",
        _unary(16, size=10 * 1024),
        seconds=600.0,
    ),
    _one(
        "steady",
        "45 MiB/s through flushes and a compaction: the longest hole",
        Part(name="session", kind="session", batch=100, rate=450.0, encoding="protobuf"),
        seconds=60.0,
    ),
)

SCENARIOS: Final = {scenario.name: scenario for scenario in _ALL}
STANDARD: Final = ("unary-1", "unary-16", "unary-64", "batches-json", "batches-kib", "session")
