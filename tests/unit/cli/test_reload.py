"""A running process reads its settings again: what is taken over, refused, and told."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from svc_cluster.base.audit_trail import AuditTrail, Event
from svc_cluster.base.clock import SystemClock
from svc_cluster.cli.processes.reload import Reloader
from svc_cluster.settings import GatewaySettings
from svc_cluster.settings_errors import SettingsError
from tests.unit.test_settings_reload import gateway


class Sink:
    """An audit log in memory, which may be full."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []
        self.is_full = False
        self.reopened = 0

    def write(self, event: Event) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.events.append({key: value for key, value in event.items() if key != "time"})

    def reopen(self) -> None:
        self.reopened += 1

    def close(self) -> None: ...


class Rig:
    """A reloader whose file is `said`."""

    def __init__(self) -> None:
        self.said: GatewaySettings | Exception = gateway()
        self.applied: list[GatewaySettings] = []
        self.sink = Sink()
        self.trail = AuditTrail(self.sink)
        self.reloader = Reloader(
            gateway(),
            self._read,
            self.applied.append,
            audit=self.trail,
            clock=SystemClock(),
            who={"role": "gateway"},
        )

    def _read(self) -> GatewaySettings:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def play(body: Callable[[Rig], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await body(Rig())

    asyncio.run(main())


EVENT = {"operation": "reload-settings", "token": "-", "role": "gateway"}


def test_a_change_is_applied_and_told_from_what_to_what() -> None:
    """One audit line has old and new value; what waits for a restart is not applied."""

    async def body(rig: Rig) -> None:
        rig.said = gateway(token_read_mib_per_second=2.5, connections_max=77)
        await rig.reloader.reload()
        assert rig.applied == [gateway(token_read_mib_per_second=2.5)] == [rig.reloader.settings]
        changes = [{"setting": "token_read_mib_per_second", "from": None, "to": 2.5}]
        assert rig.sink.events == [{**EVENT, "effect": "done", "changes": changes}]
        await rig.reloader.reload()
        assert len(rig.applied) == len(rig.sink.events) == 1

    play(body)


def test_refused_settings_leave_the_old_ones(caplog: pytest.LogCaptureFixture) -> None:
    """The log says why, the audit log that nothing was done."""

    async def body(rig: Rig) -> None:
        rig.said = SettingsError("the file x is not YAML: what is this")
        await rig.reloader.reload()
        assert (rig.applied, rig.reloader.settings) == ([], gateway())
        assert rig.sink.events == [{**EVENT, "effect": "none", "changes": []}]

    play(body)
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.getMessage() == "settings_refused"
    assert record.__dict__["fields"]["reason"] == "the file x is not YAML: what is this"


def test_a_refusal_is_told_without_what_looks_like_a_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever its sentence says: the log goes to whoever helps."""

    async def body(rig: Rig) -> None:
        rig.said = SettingsError("url is http://u:Tr0ub4dor@h/p?key=Tr0ub4dor here")
        await rig.reloader.reload()

    play(body)
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.__dict__["fields"]["reason"] == "url is http://[masked]@h/p?[masked] here"


def test_a_surprise_is_not_the_end_of_reloading(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody expects this fault; it is in the log, and the next signal is heard."""

    async def body(rig: Rig) -> None:
        rig.reloader.start()
        rig.said = ZeroDivisionError("of a parser")
        rig.reloader.hang_up()
        async with asyncio.timeout(10):
            while not any(one.getMessage() == "settings_refused" for one in caplog.records):
                await asyncio.sleep(0.001)
            rig.said = gateway(log_level="debug")
            rig.reloader.hang_up()
            while not rig.sink.events:
                await asyncio.sleep(0.001)
        assert rig.applied == [gateway(log_level="debug")]
        await rig.reloader.close()

    play(body)


def test_nothing_changes_that_cannot_be_told(caplog: pytest.LogCaptureFixture) -> None:
    """While an event waits because the audit log is full a reload is refused; behind that it is
    done."""

    async def body(rig: Rig) -> None:
        rig.sink.is_full = True
        rig.trail.record({"operation": "before"}, is_refusal=False)
        rig.said = gateway(log_level="debug")
        await rig.reloader.reload()
        assert rig.applied == []
        rig.sink.is_full = False
        await rig.reloader.reload()
        assert rig.applied == [gateway(log_level="debug")]
        assert [event.get("effect") for event in rig.sink.events] == [None, "none", "done"]
        rig.said = gateway()
        await rig.reloader.reload()  # the level of this process is others' too

    play(body)


def test_the_signal_reopens_the_audit_log_and_reads_the_settings() -> None:
    """Whatever comes while they are read is read once more behind that."""

    async def body(rig: Rig) -> None:
        rig.reloader.start()
        try:
            for rate in (3.0, 4.0):
                rig.said = gateway(account_requests_per_second=rate)
                os.kill(os.getpid(), signal.SIGHUP)
                async with asyncio.timeout(30):
                    while rig.reloader.settings != rig.said:
                        await asyncio.sleep(0)
            assert rig.sink.reopened == 2
            assert [one.account_requests_per_second for one in rig.applied] == [3.0, 4.0]
        finally:
            await rig.reloader.close()
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    play(body)
