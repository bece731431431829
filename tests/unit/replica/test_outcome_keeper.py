"""When the outcomes of repeatable requests are asked to be forgotten."""

from __future__ import annotations

from typing import Any

from svc_cluster.base.errors import ServiceError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.idempotency_table import EXPIRED_AT_ONCE_MAX, IDEMPOTENCY_KEYS_KEPT_MS
from svc_cluster.replica.idempotency_keeper import IdempotencyKeeper
from svc_cluster.stream.commands import IdempotentWrite
from tests.unit.stream.support import NOW, Leader


class Rig:
    """A basin whose leader carries out at once what its keeper asks for."""

    def __init__(self) -> None:
        self.leader = Leader()
        self.now_ms = int(NOW)
        self.asked: list[int] = []
        self.failure: ServiceError | None = None
        self.keeper = IdempotencyKeeper(self.leader.state.idempotency, self, self._ask)

    def monotonic(self) -> float:
        return 0.0

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.now_ms)

    def _ask(self, before_ms: TimestampMs, done: Any) -> None:
        self.asked.append(before_ms)
        command = self.leader.sequencer.expire_idempotency_keys(before_ms)
        if self.failure is not None or command is None:
            done(None, self.failure)
            return
        planned = self.leader.run(command)
        done(planned.outcomes[0], None)

    def decide(self, count: int, at_ms: int) -> None:
        first = self.leader.state.idempotency.count
        keys = [(first + n).to_bytes(32, "big") for n in range(count)]
        self.leader.apply([IdempotentWrite(key, TimestampMs(at_ms), b"a") for key in keys])

    @property
    def kept(self) -> int:
        return self.leader.state.idempotency.count


def test_nothing_is_asked_before_it_is_due() -> None:
    """Not a millisecond early; and then for exactly what is over."""
    rig = Rig()
    rig.keeper.work()
    rig.decide(2, rig.now_ms)
    rig.decide(1, rig.now_ms + 5)
    rig.now_ms += IDEMPOTENCY_KEYS_KEPT_MS
    rig.keeper.work()
    assert (rig.asked, rig.kept) == ([], 3)
    rig.now_ms += 1
    rig.keeper.work()
    assert (rig.asked, rig.kept) == ([NOW + 1], 1)
    rig.now_ms += 5
    rig.keeper.work()
    assert (rig.asked, rig.kept) == ([NOW + 1, NOW + 6], 0)


def test_more_than_one_entry_holds_is_asked_for_at_once() -> None:
    """One ask behind the other until nothing is due."""
    rig = Rig()
    rig.decide(EXPIRED_AT_ONCE_MAX + 1, rig.now_ms)
    rig.now_ms += IDEMPOTENCY_KEYS_KEPT_MS + 1
    rig.keeper.work()
    assert (len(rig.asked), rig.kept) == (2, 0)


def test_what_was_lost_is_asked_for_again_later() -> None:
    """And not in a circle."""
    rig = Rig()
    rig.decide(1, rig.now_ms)
    rig.now_ms += IDEMPOTENCY_KEYS_KEPT_MS + 1
    rig.failure = UnavailableError()
    rig.keeper.work()
    assert (len(rig.asked), rig.kept) == (1, 1)
    rig.failure = None
    rig.keeper.work()
    assert (len(rig.asked), rig.kept) == (2, 0)


def test_a_sealed_basin_is_left_alone() -> None:
    """It takes no entry any more: asked once each time, and not in a circle."""
    rig = Rig()
    rig.decide(1, rig.now_ms)
    rig.leader.run(rig.leader.sequencer.seal(NOW))
    rig.now_ms += IDEMPOTENCY_KEYS_KEPT_MS + 1
    rig.keeper.work()
    assert (len(rig.asked), rig.kept) == (1, 1)
