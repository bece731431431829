"""The shipped alerts in a real Prometheus over the processes of a scene, `for` shortened."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from svc_cluster.base.clock import SystemClock
from tests.alerts.table import THRESHOLDS, of_scene
from tests.e2e.prometheus import Prometheus
from tests.tidy.observability import ALERTS

FOR: Final = "2s"
"""What each `for` of the shipped rules becomes. Nothing else of them changes but THRESHOLDS."""

FIRES_S: Final = 120.0


def shortened(path: Path) -> dict[str, Any]:
    """The rules of a file with FOR instead of each `for`, and the values of THRESHOLDS."""
    rules: dict[str, Any] = yaml.safe_load(path.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = FOR
            if rule["alert"] in THRESHOLDS:
                shipped, tried = THRESHOLDS[rule["alert"]]
                assert rule["expr"].count(shipped) == 1, rule["alert"]
                rule["expr"] = rule["expr"].replace(shipped, tried)
    return rules


class Watch:
    """What fires in one scene."""

    def __init__(self, prometheus: Prometheus, scene: str) -> None:
        self._prometheus = prometheus
        self._scene = scene
        self.fired: set[str] = set()

    def firing(self) -> set[str]:
        """The alerts that fire now. Each has to say in whole words what is the matter."""
        names = set()
        for alert in self._prometheus.alerts():
            words = alert["annotations"].values()
            assert not any("<error" in text or "<no value>" in text for text in words), alert
            if alert["state"] == "firing":
                names.add(alert["labels"]["alertname"])
        return names

    async def scraped(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Until every process has been scraped so often that rates and increases have a start."""
        every = [address for addresses in wanted.values() for address in addresses]
        await self._prometheus.wait("count_over_time(up[1m]) >= bool 3", dict.fromkeys(every, 1.0))
        await self._prometheus.wait("up", dict.fromkeys(every, 1.0))

    async def fires(self, *names: str, while_doing: Callable[[], object] | None = None) -> None:
        """Until each of these alerts fires. That none of them did before the deed is asked of
        `quiet`. `while_doing` is called again and again meanwhile."""
        begun = SystemClock().monotonic()
        missing = set(names)
        while missing:
            if while_doing is not None:
                while_doing()
            missing -= await asyncio.to_thread(self.firing)
            took = SystemClock().monotonic() - begun
            assert took < FIRES_S, f"{sorted(missing)} do not fire"
            await asyncio.sleep(0.2)
        self.fired |= set(names)
        print(f"{SystemClock().monotonic() - begun:6.1f} s  {', '.join(names)}", flush=True)

    async def quiet(self, *names: str) -> None:
        """None of these fires, which is seen on one look: to be asked right before the deed."""
        firing = await asyncio.to_thread(self.firing)
        assert not firing & set(names), firing

    async def ends(self, *names: str) -> None:
        """Until none of these fires any more."""
        end = SystemClock().monotonic() + FIRES_S
        while left := (await asyncio.to_thread(self.firing)) & set(names):
            assert SystemClock().monotonic() < end, f"{sorted(left)} go on"
            await asyncio.sleep(0.2)

    def complete(self) -> None:
        assert self.fired == of_scene(self._scene)


@contextlib.contextmanager
def watching(
    binaries: Path,
    directory: Path,
    jobs: Mapping[str, Sequence[str]],
    scene: str,
    *,
    over_tls: Mapping[str, Path] | None = None,
) -> Iterator[Watch]:
    """A Prometheus with the shortened rules while a scene is played."""
    rules = directory / "alerts.yml"
    rules.write_text(yaml.safe_dump(shortened(ALERTS)))
    prometheus = Prometheus(binaries, directory, jobs, rules=rules, over_tls=over_tls)
    try:
        yield Watch(prometheus, scene)
    finally:
        prometheus.stop()
