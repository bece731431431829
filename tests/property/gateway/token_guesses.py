"""Guesses at access tokens: `python -m tests.property.gateway.token_guesses [COUNT] [SEED]`.

Among 1,000 tokens COUNT secrets (a million unless told) are shown that none of them has: random
ones, and valid ones changed a little, with their checksum put right. In between valid ones are
shown from the same address. Printed is how many guesses were let in, which has to be none, and how
many valid ones were not, which has to be none either; the exit code says so.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from svc_cluster.base.errors import ServiceError
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.http.message import Connection, Request
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken
from tests.simulation.clock import SimClock
from tests.simulation.loop import run

TOKENS = 1_000
AT_ONCE = 500
VALID_EACH = 20
"""Every so many guesses a valid secret is shown."""
FAILED_PER_SECOND = 20.0


class Catalog:
    """What the leader of the catalog would say, without the tokens changing."""

    def __init__(self, secrets: list[bytes]) -> None:
        self._changes = tuple(
            (
                serial,
                AccessToken(serial, f"t-{serial}", secret_hash(secret_text(raw)), 0, ROOT_SCOPE),
            )
            for serial, raw in enumerate(secrets, 1)
        )

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews:
        await asyncio.sleep(0.001)
        changes = () if version else self._changes
        return TokenNews(
            granted=bool(version), version=1, behind=False, changes=changes, all_read=False
        )

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody asks for {name}")


def flipped(raw: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(256)
    return bytes(b ^ (1 << place % 8) if n == place // 8 else b for n, b in enumerate(raw))


KINDS: dict[str, Callable[[bytes, random.Random], str]] = {
    "random": lambda raw, rng: secret_text(rng.randbytes(32)),
    "one bit": lambda raw, rng: secret_text(flipped(raw, rng)),
    "halves": lambda raw, rng: secret_text(raw[:16] + rng.randbytes(16)),
    "cut": lambda raw, rng: secret_text(raw)[: rng.randrange(56)],
    "longer": lambda raw, rng: secret_text(raw) + rng.choice("a0-_= \t"),
    "case": lambda raw, rng: secret_text(raw).swapcase(),
    "checksum": lambda raw, rng: secret_text(raw)[:-8] + f"{rng.getrandbits(32):08x}",
    "hash": lambda raw, rng: secret_hash(secret_text(raw)).hex(),
    "not ASCII": lambda raw, rng: secret_text(raw)[:-1] + rng.choice("٣é\u00a0\u2028"),
}


async def play(count: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    secrets = [rng.randbytes(32) for _ in range(TOKENS)]
    valid = {secret_text(raw) for raw in secrets}
    clock = SimClock(asyncio.get_running_loop())
    directory = TokenDirectory(clock)
    keeper = LeaseKeeper(Catalog(secrets), directory, clock, "gateway")
    access = AccessControl(directory, keeper, clock=clock, failed_per_second=FAILED_PER_SECOND)
    keeper.start()
    while not directory.is_fresh:
        await asyncio.sleep(0.01)
    answers: Counter[str] = Counter()

    async def show(secret: str) -> str:
        headers = [("authorization", f"Bearer {secret}")]
        request = Request("GET", "/v1/basins", "", headers, connection=Connection("10.0.0.1"))
        try:
            await access.caller_of(request)
        except ServiceError as refusal:
            return refusal.code.value
        return "let in"

    async def guess(kind: str, secret: str) -> None:
        # blanks around it are not part of a secret, and a flipped one may not be another's
        if secret.strip(" ") not in valid:
            answers[await show(secret)] += 1

    async def be_let_in(secret: str) -> None:
        answers["valid " + await show(secret)] += 1

    done = 0
    names = list(KINDS)
    while done < count:
        batch = min(AT_ONCE, count - done)
        work = []
        for number in range(batch):
            kind = rng.choice(names)
            work.append(guess(kind, KINDS[kind](rng.choice(secrets), rng)))
            if number % VALID_EACH == 0:
                work.append(be_let_in(secret_text(rng.choice(secrets))))
        await asyncio.gather(*work)
        done += batch
    await keeper.close()
    shown = sum(number for name, number in answers.items() if not name.startswith("valid"))
    return {"guesses": shown, **dict(sorted(answers.items()))}


def guesses(count: int, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = run(lambda loop: play(count, seed))
    return found


def is_good(found: dict[str, Any]) -> bool:
    """No guess was let in, and every valid secret was."""
    refused = [name for name in found if name.startswith("valid ") and name != "valid let in"]
    return "let in" not in found and not refused and found["valid let in"] > 0


if __name__ == "__main__":
    found = guesses(
        int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000,
        int(sys.argv[2]) if len(sys.argv) > 2 else 1,
    )
    print(json.dumps(found))
    sys.exit(0 if is_good(found) else 1)
