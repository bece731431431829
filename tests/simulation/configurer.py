"""Changes to configurations by several at a time: none is lost, and none is undone.

Each member of a configuration has one writer, which sets it to ever greater numbers while others
change the other members. Whoever looks must see at least what was confirmed before it began to
look, and nothing that was not tried.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.api import Config, ConfiguringClient, NoEffectError, UnknownOutcomeError
from tests.simulation.checkers.raft import InvariantError
from tests.simulation.churn import SETTLE_S

FLOOR = 10_000_000
"""Seconds: nothing expires and nothing is deleted for being empty."""


@dataclass(slots=True)
class Register:
    """What is known of the configuration of a stream, or of a basin's default (None)."""

    basin: str
    stream: str | None
    confirmed: dict[str, int] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)

    def check(self, seen: Config, confirmed: Config) -> None:
        """`confirmed`: as it was before the request was sent."""
        for member, floor in confirmed.items():
            value = seen.get(member, 0)
            if not floor <= value <= self.tried[member]:
                raise InvariantError(
                    f"configuration: {member} of {self.basin}/{self.stream} is {value}, "
                    f"confirmed {floor}, tried {self.tried[member]}"
                )


class Configurer:
    """The one writer of one member."""

    def __init__(
        self, apis: Sequence[ConfiguringClient], rng: random.Random, register: Register, member: str
    ) -> None:
        self._apis = apis
        self._rng = rng
        self._register = register
        self._member = member
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self._rng.expovariate(2.0))
            try:
                await (self._look() if self._rng.random() < 0.4 else self._write())
            except UnknownOutcomeError:
                # until then it may still turn up, behind what comes next
                await asyncio.sleep(SETTLE_S)
            except NoEffectError:
                continue

    async def _look(self) -> None:
        register = self._register
        confirmed = dict(register.confirmed)
        api = self._rng.choice(self._apis)
        register.check(await api.config(register.basin, register.stream), confirmed)

    async def _write(self) -> None:
        register, member = self._register, self._member
        confirmed = dict(register.confirmed)
        value = register.tried.get(member, FLOOR) + 1
        register.tried[member] = value
        api = self._rng.choice(self._apis)
        seen = await api.reconfigure(register.basin, register.stream, {member: value})
        register.check(seen, {**confirmed, member: value})
        register.confirmed[member] = value


def configurers(
    apis: Sequence[ConfiguringClient], rng: random.Random, targets: int
) -> list[Configurer]:
    """Two writers for each of the first `targets` of: a basin's default, a stream."""
    registers = [Register("basin-000", None), Register("basin-000", "stream-0")][:targets]
    return [
        Configurer(apis, random.Random(rng.random()), register, member)
        for register in registers
        for member in ("retention", "min_age")
    ]
