"""SIGHUP: a running process goes on in a new audit log, and takes over what its settings now say.

Settings that cannot be taken over, or not now, leave everything as it is and are told of.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from svc_cluster.administration.masking import shown
from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import UnavailableError
from svc_cluster.base.log import get_logger, set_level
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import SettingsError
from svc_cluster.settings_reload import Reading, reading
from svc_cluster.settings_secrets import without_secrets

log = get_logger("process")

_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)


class Reloader(Generic[_Settings]):
    """The one of a process. However many signals come while settings are read, they are read once
    more behind that."""

    def __init__(
        self,
        settings: _Settings,
        read: Callable[[], _Settings],
        apply: Callable[[_Settings], None],
        *,
        audit: AuditTrail,
        clock: Clock,
        who: Mapping[str, object],
    ) -> None:
        """`read` reads all settings again, in a thread, and raises SettingsError. `apply` puts
        settings into effect that differ from the last ones in what can be reloaded. `who` says in
        the audit log which process it is."""
        self.settings: _Settings = settings
        """Those in effect."""
        self._read: Callable[[], _Settings] = read
        self._apply: Callable[[_Settings], None] = apply
        self._audit = audit
        self._clock = clock
        self._who = who
        self._wanted = asyncio.Event()
        self._tasks = Tasks()

    def start(self) -> None:
        """From now on SIGHUP, which would end the process, is heard."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.hang_up)
        self._tasks.spawn(self._run(), "reload settings")

    async def close(self) -> None:
        """Settings are not read any more."""
        await self._tasks.cancel_all()

    def hang_up(self) -> None:
        """The signal has come."""
        self._audit.reopen()
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.reload()
            except Exception as fault:  # the next signal is heard all the same
                log.error("settings_refused", exc_info=fault, remedy="the old ones stay in effect")

    async def reload(self) -> None:
        """Read the settings and put into effect what can be; or leave all as it is and say why."""
        try:
            found = reading(self.settings, await asyncio.to_thread(self._read))
            if found.changes:
                self._audit.check()
        except (SettingsError, UnavailableError) as refusal:
            reason = without_secrets(str(refusal))
            log.error("settings_refused", reason=reason, remedy="the old ones stay in effect")
            self._tell("none", [], is_refusal=True)
            return
        if found.changes:
            set_level(found.settings.log_level)
            self._apply(found.settings)
            self.settings = found.settings
        changes = _shown(found)
        log.info("settings_reloaded", changes=changes)
        if changes:
            self._tell("done", changes, is_refusal=False)
        if found.waiting:
            log.warning(
                "settings_wait_for_restart",
                keys=list(found.waiting),
                remedy="start the process again for these to take effect",
            )

    def _tell(self, effect: str, changes: list[dict[str, Any]], *, is_refusal: bool) -> None:
        self._audit.record(
            {
                "time": rfc3339(self._clock.wall_ms()),
                "operation": "reload-settings",
                "token": "-",
                "effect": effect,
                **self._who,
                "changes": changes,
            },
            is_refusal=is_refusal,
        )


def _shown(found: Reading[Any]) -> list[dict[str, Any]]:
    """Return the changes as they may be told: what leads to a secret is masked."""
    before = shown({one.key: one.before for one in found.changes})
    after = shown({one.key: one.after for one in found.changes})
    return [
        {
            "setting": was.key,
            "from": msgspec.json.decode(was.value),
            "to": msgspec.json.decode(now.value),
        }
        for was, now in zip(before, after, strict=True)
    ]
