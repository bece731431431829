"""What of a gateway's settings can change while it runs, and how it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypedDict

from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.app import GatewayApp
from svc_cluster.gateway.limits.rate_limit import Rates
from svc_cluster.gateway.limits.rate_limiter import RateLimiter
from svc_cluster.gateway.request.request_log import RequestLog
from svc_cluster.settings import GatewaySettings

MIB: Final = 1 << 20


class Told(TypedDict):
    """What is told of single requests."""

    every_request: bool
    slow_seconds: float | None
    lines_per_second_max: int


def rates(settings: GatewaySettings) -> tuple[Rates, Rates]:
    """Return the rates of the account, and of each access token."""

    def of(owner: str) -> Rates:
        requests, append_mib, read_mib = (
            getattr(settings, f"{owner}_{what}_per_second")
            for what in ("requests", "append_mib", "read_mib")
        )
        return Rates(
            requests,
            None if append_mib is None else append_mib * MIB,
            None if read_mib is None else read_mib * MIB,
        )

    return of("account"), of("token")


def is_limited(settings: GatewaySettings) -> bool:
    """Tells whether any of those rates is one."""
    return rates(settings) != (Rates(), Rates())


def told(settings: GatewaySettings) -> Told:
    """Return what the request log tells by these settings."""
    slow_ms = settings.slow_request_ms
    return Told(
        every_request=settings.access_log,
        slow_seconds=None if slow_ms is None else slow_ms / 1000,
        lines_per_second_max=settings.request_log_lines_per_second_max,
    )


@dataclass(frozen=True, slots=True)
class Reloadable:
    """The parts of a gateway that take other settings. `access`: None where nobody is asked for a
    token."""

    app: GatewayApp
    access: AccessControl | None
    keeper: LeaseKeeper
    limiter: RateLimiter
    request_log: RequestLog

    def apply(self, settings: GatewaySettings) -> None:
        """Go on by these settings, as far as they can be reloaded."""
        self.request_log.change(**told(settings))
        if self.access is not None:
            self.access.limit_failures(settings.failed_authentications_per_second)
        self.limiter.change(*rates(settings))
        if is_limited(settings):
            # whoever has a lease counts as one of those that share the limits
            self.keeper.start()
            self.app.limit(self.limiter)
