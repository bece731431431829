"""Only a token's own text is let in, whatever stands in `authorization`; nothing else happens."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Final

import pytest

from svc_cluster.base.errors import UnauthenticatedError
from svc_cluster.gateway.access.authentication import AccessControl
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.http.message import Request
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import is_secret_text, secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken
from tests.contract.memory_backend import MemoryBackend
from tests.property.gateway.hostile import damaged
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.scripted import body_of, make_app

INPUTS: Final = int(os.environ.get("TOKEN_INPUTS", "20000"))
SECRET: Final = secret_text(bytes(range(7, 39)))
UNKNOWN: Final = "the access token is unknown or revoked"
MISSING: Final = "send an access token: authorization: Bearer <token>"


class Keeper:
    """Counts how often the catalog would be asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def look_up(self) -> None:
        self.asked += 1


def control(clock: SimClock) -> tuple[AccessControl, Keeper]:
    directory = TokenDirectory(clock)
    token = AccessToken(1, "only", secret_hash(SECRET), 0, ROOT_SCOPE)
    news = TokenNews(granted=True, version=1, behind=False, changes=((1, token),), all_read=False)
    directory.take(news, clock.monotonic())
    keeper = Keeper()
    return AccessControl(directory, keeper), keeper  # type: ignore[arg-type]


def header_of(rng: random.Random) -> str:
    """Bytes, held one a character, as the protocols give them."""
    kind = rng.randrange(6)
    if kind == 0:
        return damaged(rng, f"Bearer {SECRET}".encode()).decode("latin-1")
    if kind == 1:
        place = rng.randrange(len(SECRET))
        other = rng.choice("aZ0_-.=\xff ")
        return f"Bearer {SECRET[:place]}{other}{SECRET[place + 1 :]}"
    if kind == 2:
        return f"bEARER{' ' * rng.randint(0, 3)}{SECRET}{' ' * rng.randint(0, 3)}"
    if kind == 3:
        return f"Bearer {rng.choice((SECRET.upper(), SECRET.lower(), SECRET[::-1], SECRET * 2))}"
    if kind == 4:
        scheme = rng.choice(("Basic", "Token", "", "Bearer,", "Bearer:", "Bearer\t", "\tBearer"))
        return f"{scheme} {SECRET}"
    return f"Bearer {secret_text(rng.randbytes(32))}"


def is_the_token(header: str) -> bool:
    """What the interface says: the scheme in any case, then blanks, the token, and blanks."""
    scheme, _, rest = header.partition(" ")
    return scheme.lower() == "bearer" and rest.strip(" ") == SECRET


def test_only_the_tokens_own_text_is_let_in() -> None:
    """20,000 headers: let in or refused with one sentence; the catalog is asked about those that
    could be a token of ours by their shape, and about no other."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        access, keeper = control(clock)
        rng = random.Random(11)
        let_in = refused = plausible = 0
        for _ in range(INPUTS):
            header = header_of(rng)
            request = Request("GET", "/v1/basins", "", [("authorization", header)])
            if is_the_token(header):
                assert (await access.caller_of(request)).token_id == "only"
                let_in += 1
                continue
            scheme, _, rest = header.partition(" ")
            plausible += scheme.lower() == "bearer" and is_secret_text(rest.strip(" "))
            with pytest.raises(UnauthenticatedError) as told:
                await access.caller_of(request)
            assert told.value.message == UNKNOWN
            refused += 1
        assert keeper.asked == plausible
        assert min(let_in, refused, plausible) > INPUTS // 20

    run(lambda loop: main())


def test_a_refusal_is_exact_and_without_effect() -> None:
    """On a route that would make something: 401, both words, one of two sentences, nothing made."""

    async def main() -> None:
        clock = SimClock(asyncio.get_running_loop())
        access, _ = control(clock)
        backend = MemoryBackend(clock)
        app, _ = make_app(backend, access=access)
        for headers, message in (
            ([], MISSING),
            ([("authorization", "")], UNKNOWN),
            ([("authorization", f"Bearer {SECRET}")] * 2, UNKNOWN),
            ([("authorization", f"Bearer {SECRET},")], UNKNOWN),
            ([("authorization", "Bearer " + "x" * 100_000)], UNKNOWN),
            ([("authorization", f"Bearer\x00{SECRET}")], UNKNOWN),
            ([("svc-access-token", SECRET), ("cookie", f"token={SECRET}")], MISSING),
        ):
            answer = await app.handle(
                Request("PUT", "/v1/basins/some-basin", f"access_token={SECRET}", headers)
            )
            assert answer.status == 401
            assert json.loads(body_of(answer)) == {
                "error": "unauthorized",
                "code": "authn",
                "message": message,
                "may_have_taken_effect": False,
            }
        assert await backend.list_basins("", "", 10) == ([], False)

    run(lambda loop: main())
