"""Declared access tokens brought to a cluster whose answers get lost, in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.errors import AlreadyExistsError, DeadlineError, TokenNotFoundError
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.api.declarer import Declarer, KnownTokens
from svc_cluster.gateway.cluster.backend import ProvisionedBasin
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.model.access import Op, Scope
from svc_cluster.model.access_token import AccessToken, AskedBy, Expiry, TokenRequest
from svc_cluster.model.declarations import (
    Declarations,
    DeclaredBasin,
    DeclaredToken,
    SecretSource,
)
from svc_cluster.model.stream_config import BasinConfig
from tests.contract.memory_backend import MemoryBackend
from tests.simulation.clock import SimClock
from tests.simulation.loop import run
from tests.unit.gateway.test_declarer import KeptEvents

READ = Scope(ops=(Op.READ,))
DECLARED = DeclaredToken(
    "access_tokens[0]",
    TokenRequest("billing", READ),
    SecretSource("access_tokens[0].secret_env", variable="T"),
    b"h" * 32,
)
THERE = AccessToken(1, "billing", b"h" * 32, 0, READ)
CHILD = AccessToken(2, "child", b"c" * 32, 1, READ)


class IssuedTokens:
    """Implements `TokenBackend` with tokens in memory; some answers get lost."""

    def __init__(self, *tokens: AccessToken) -> None:
        self.tokens = {token.serial: token for token in tokens}
        self._version = 1
        self.answers_to_lose = 0

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews:
        if read_all:
            changes = tuple(sorted(self.tokens.items()))
            return TokenNews(False, self._version, False, changes, all_read=True)
        known = version == self._version
        return TokenNews(known, self._version, not known, (), all_read=False)

    async def issue(
        self,
        request: TokenRequest,
        secret_hash: bytes,
        asked_by: AskedBy,
        *,
        key: bytes = b"",
        sealed_secret: bytes = b"",
    ) -> bytes | None:
        if any(token.token_id == request.token_id for token in self.tokens.values()):
            raise AlreadyExistsError("an access token of this id exists")
        serial = max(self.tokens, default=0) + 1
        self.tokens[serial] = AccessToken(serial, request.token_id, secret_hash, 0, request.scope)
        self._version += 1
        self._maybe_lose("the answer is lost")
        return None

    async def revoke(self, token_id: str, asked_by: AskedBy, *, key: bytes = b"") -> None:
        gone = [serial for serial, token in self.tokens.items() if token.token_id == token_id]
        if not gone:
            raise TokenNotFoundError("no access token of this id")
        self.tokens = {
            serial: token
            for serial, token in self.tokens.items()
            if serial not in gone and token.parent not in gone
        }
        self._version += 1

    async def page(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[AccessToken], bool]:
        return list(self.tokens.values())[:limit], False

    def _maybe_lose(self, what: str) -> None:
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise DeadlineError(what)


class ForgetfulBackend(MemoryBackend):
    """Makes a basin, and its first answer gets lost."""

    has_answered = False

    async def ensure_basin(self, name: str, *args: Any, **kwargs: Any) -> ProvisionedBasin:
        made = await super().ensure_basin(name, *args, **kwargs)
        if not self.has_answered:
            self.has_answered = True
            raise DeadlineError("the answer is lost")
        return made


async def declare(
    tokens: IssuedTokens, declared: Declarations, make: Callable[[SimClock], MemoryBackend]
) -> tuple[Declarer, KeptEvents]:
    """A gateway's whole attempt."""
    clock = SimClock(asyncio.get_running_loop())
    directory = TokenDirectory(clock)
    keeper = LeaseKeeper(tokens, directory, clock, "one")
    sink = KeptEvents()
    declarer = Declarer(
        declared,
        make(clock),
        clock=clock,
        rng=random.Random(7),
        trail=AuditTrail(sink),
        token_backend=tokens,
        known=KnownTokens(directory, keeper),
    )
    keeper.start()
    try:
        async with asyncio.timeout(60):
            await declarer.run()
    finally:
        await keeper.close()
    return declarer, sink


def declared_with(
    tokens: IssuedTokens,
    declared: Declarations,
    make: Callable[[SimClock], MemoryBackend] = MemoryBackend,
) -> tuple[Declarer, KeptEvents]:
    def main(_: object) -> Coroutine[Any, Any, tuple[Declarer, KeptEvents]]:
        return declare(tokens, declared, make)

    return run(main)


def told(sink: KeptEvents) -> list[tuple[object, ...]]:
    members = ("operation", "basin", "token_id", "effect", "code", "outcome")
    return [tuple(each[member] for member in members) for each in sink.events]


@pytest.mark.parametrize(
    ("there", "differing"),
    [
        (replace(THERE, secret_hash=b"x" * 32), "secret"),
        (replace(THERE, scope=Scope(ops=(Op.APPEND,))), "scope"),
        (replace(THERE, expires_at=Expiry.parse("2040-01-01T00:00:00Z")), "expires_at"),
        (replace(THERE, secret_hash=b"x" * 32, scope=Scope(ops=(Op.APPEND,))), "secret, scope"),
    ],
)
def test_a_token_that_differs_is_refused_and_never_revoked(
    there: AccessToken, differing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The token and what was issued with it stay as they are, nothing is told to the audit log, the
    rest is done, and the log names the token, what differs and the remedy."""
    tokens = IssuedTokens(there, CHILD)
    other = replace(DECLARED, request=TokenRequest("other", READ), secret_hash=b"o" * 32)
    declarer, sink = declared_with(tokens, Declarations((), (DECLARED, other)))
    assert declarer.is_settled
    assert [tokens.tokens[1], tokens.tokens[2]] == [there, CHILD]
    assert told(sink) == [("declare-access-token", None, "other", "done", None, "created")]
    (refused,) = [each for each in caplog.records if each.getMessage() == "declaration_refused"]
    fields = vars(refused)["fields"]
    assert (fields["path"], fields["name"]) == (DECLARED.path, "billing")
    assert f"`billing` is there with another {differing} and stays" in fields["reason"]
    assert fields["reason"].endswith("revoke it by hand and start again")


def test_what_may_have_taken_effect_is_told() -> None:
    """Of a basin and a token whose answers are lost the audit log says that they may have been
    made; the next attempt finds them and has nothing to tell, and neither has another start."""
    tokens = IssuedTokens()
    tokens.answers_to_lose = 1
    basin = DeclaredBasin("basins[0]", "wanted-1", BasinConfig())
    _, sink = declared_with(tokens, Declarations((basin,), (DECLARED,)), ForgetfulBackend)
    lost = ("possible", "request_timeout", None)
    assert told(sink) == [
        ("declare-basin", "wanted-1", None, *lost),
        ("declare-access-token", None, "billing", *lost),
    ]
    assert [token.token_id for token in tokens.tokens.values()] == ["billing"]
    _, sink = declared_with(tokens, Declarations((), (DECLARED,)))
    assert told(sink) == []
