"""The events that the audit trail keeps to be looked at: those that were written, in bounds."""

from __future__ import annotations

from svc_cluster.base.audit_trail import RECENT_MAX, AuditTrail, Event
from svc_cluster.model.access_secret import secret_text


class Sink:
    """Takes what it is given while `is_whole`."""

    def __init__(self) -> None:
        self.is_whole = True
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        if not self.is_whole:
            raise OSError(28, "no space")
        self.events.append(event)

    def reopen(self) -> None: ...

    def close(self) -> None: ...


def test_the_newest_are_kept_and_told_first() -> None:
    """As many as there may be, whatever came before, and of those as many as are asked for."""
    trail = AuditTrail(Sink())
    for number in range(RECENT_MAX + 7):
        trail.record({"number": number}, is_refusal=False)
    assert trail.kept == RECENT_MAX
    newest = [{"number": RECENT_MAX + 6}, {"number": RECENT_MAX + 5}]
    assert trail.recent(2) == newest
    everything = trail.recent(10 * RECENT_MAX)
    assert len(everything) == RECENT_MAX
    assert everything[-1] == {"number": 7}


def test_a_secret_in_a_name_is_told_to_nobody() -> None:
    """Somebody typed a token where a name belongs: who looks at the events does not get it."""
    sink = Sink()
    trail = AuditTrail(sink)
    secret = secret_text(bytes(range(32)))
    trail.record({"token_id": secret, "status": 404}, is_refusal=False)
    assert trail.recent(1) == [{"token_id": "[redacted]", "status": 404}]


def test_what_is_not_written_yet_is_not_told() -> None:
    """Nobody sees an event before the trail has it; then everybody does."""
    sink = Sink()
    trail = AuditTrail(sink)
    sink.is_whole = False
    trail.record({"number": 1}, is_refusal=False)
    assert (trail.recent(5), trail.kept) == ([], 1)
    sink.is_whole = True
    trail.check()
    assert trail.recent(5) == [{"number": 1}] == sink.events
    assert trail.kept == 1
