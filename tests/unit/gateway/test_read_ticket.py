"""Forged read tickets: none is let in, and whose fault it is is told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
from dataclasses import replace

import pytest

from svc_cluster.base.errors import ServiceError, UnauthenticatedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.gateway.access.authentication import AccessControl, Caller
from svc_cluster.gateway.access.lease import LeaseKeeper
from svc_cluster.gateway.access.read_ticket import (
    TAMPERED,
    ReadTicket,
    parse_ticket,
    ticket_text,
)
from svc_cluster.gateway.access.token_directory import TICKET_CLOCK_SKEW_SECONDS, TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.http.message import Request
from svc_cluster.model.access import ROOT_SCOPE, Op, exact, prefix
from svc_cluster.model.access_secret import secret_hash, secret_text
from svc_cluster.model.access_token import AccessToken
from tests.unit.gateway.test_token_directory import HandClock

FORGED = 10_000
TOKENS = [
    AccessToken(serial, f"t{serial}", secret_hash(secret_text(bytes([serial]) * 32)), 0, ROOT_SCOPE)
    for serial in (1, 2, 3)
]
TICKET = ReadTicket(2, TimestampMs(60_000), "tickets-1", exact("events"))


class KnowsAll(LeaseKeeper):
    """Has asked the catalog a moment ago, whenever it is asked."""

    async def look_up(self) -> None:
        return


def control(clock: HandClock | None = None) -> AccessControl:
    clock = clock or HandClock()
    directory = TokenDirectory(clock)
    changes = tuple((token.serial, token) for token in TOKENS)
    assert not directory.take(TokenNews(True, 3, behind=False, changes=changes, all_read=False), 99)
    assert directory.take(TokenNews(True, 3, behind=False, changes=(), all_read=False), 100)
    backend: object = None
    return AccessControl(directory, KnowsAll(backend, directory, clock, "g"))  # type: ignore[arg-type]


def whole(data: bytes) -> str:
    """A text with the mark and the checksum of one that was issued."""
    bits = base64.urlsafe_b64encode(data).decode().rstrip("=")
    return "svcr_" + bits + hashlib.sha256(bits.encode()).hexdigest()[:8]


def content_of(text: str) -> bytes:
    bits = text.removeprefix("svcr_")[:-8]
    return base64.urlsafe_b64decode(bits + "=" * (-len(bits) % 4))


async def shown(access: AccessControl, text: str) -> Caller | ServiceError:
    request = Request("GET", "/v1/streams/events/records", f"ticket={text}", [])
    try:
        return await access.caller_of(request, takes_ticket=True)
    except ServiceError as error:
        return error


def test_none_of_ten_thousand_forged_tickets_is_let_in() -> None:
    """Random ones, true ones with bits turned, cut, lengthened, of other tokens, each with a right
    checksum, and texts with a character changed. The true one is let in before and after."""
    rng = random.Random(14)
    true = ticket_text(TICKET, TOKENS[1])
    data = content_of(true)

    def forged() -> str:
        match rng.randrange(5):
            case 0:
                return whole(rng.randbytes(rng.randrange(200)))
            case 1:
                turned = bytearray(data)
                for _ in range(rng.randrange(1, 4)):
                    turned[rng.randrange(len(turned))] ^= 1 << rng.randrange(8)
                return whole(bytes(turned))
            case 2:
                return whole(data[: rng.randrange(len(data))] + rng.randbytes(rng.randrange(40)))
            case 3:
                wanted = replace(TICKET, streams=prefix(""), basin="another-1")
                content = content_of(ticket_text(wanted, TOKENS[1]))[:-32]
                return whole(content + rng.choice([data[-32:], rng.randbytes(32)]))
            case _:
                place = rng.randrange(len(true))
                return true[:place] + rng.choice("abcXYZ019-_") + true[place + 1 :]

    async def main() -> tuple[int, set[str]]:
        access = control()
        let_in = 0
        told = set()
        for number in range(FORGED + 2):
            text = true if number in (0, FORGED + 1) else forged()
            found = await shown(access, text)
            if isinstance(found, Caller):
                let_in += 1
                assert text == true
            else:
                assert isinstance(found, UnauthenticatedError)
                told.add(found.message)
        return let_in, told

    let_in, told = asyncio.run(main())
    assert let_in >= 2
    unknown = "the access token of the read ticket is unknown or revoked"
    assert {TAMPERED} <= told <= {TAMPERED, unknown}


def test_a_ticket_is_over_at_its_end_and_ends_what_it_opened() -> None:
    """To the millisecond, by the gateway's clock; the refusal says so, and names no tampering."""

    async def main() -> None:
        clock = HandClock()
        access = control(clock)
        text = ticket_text(TICKET, TOKENS[1])
        clock.wall = 59_999
        caller = await shown(access, text)
        assert isinstance(caller, Caller)
        caller.check()
        clock.wall = 60_000
        with pytest.raises(UnauthenticatedError, match="the read ticket has expired"):
            caller.check()
        with pytest.raises(UnauthenticatedError, match="the read ticket has expired"):
            async with caller.while_valid():
                pass
        refused = await shown(access, text)
        assert isinstance(refused, UnauthenticatedError)
        assert refused.message == "the read ticket has expired"

    asyncio.run(main())


def test_a_ticket_that_its_holder_sealed_holds_for_no_longer_than_an_issued_one() -> None:
    """The holder knows what is kept of the secret. An end that is further off than an hour and what
    clocks may differ by opens nothing, however far off it is; it does once it has come near."""

    async def main() -> None:
        clock = HandClock()
        clock.wall = 5_000
        access = control(clock)
        last = clock.wall + 1000 * (3600 + TICKET_CLOCK_SKEW_SECONDS)
        for ends_at_ms in (last + 1, last + 86_400_000, 2**64 - 1):
            made = replace(TICKET, ends_at_ms=TimestampMs(ends_at_ms))
            refused = await shown(access, ticket_text(made, TOKENS[1]))
            assert isinstance(refused, UnauthenticatedError)
            assert refused.message == TAMPERED
        longest = ticket_text(replace(TICKET, ends_at_ms=TimestampMs(last)), TOKENS[1])
        assert isinstance(await shown(access, longest), Caller)
        clock.wall -= 1
        assert isinstance(await shown(access, longest), UnauthenticatedError)

    asyncio.run(main())


def test_the_grant_is_the_tokens_as_far_as_it_reads() -> None:
    """Both say what may be done, and neither adds to the other."""

    async def main() -> None:
        caller = await shown(control(), ticket_text(TICKET, TOKENS[1]))
        assert isinstance(caller, Caller)
        assert caller.grant.operations == {Op.READ, Op.CHECK_TAIL}
        assert caller.reads_alone

    asyncio.run(main())


@pytest.mark.parametrize("stream", ["e", "ü" * 256, "a\0b"])
def test_a_ticket_comes_back_as_it_was_sealed(stream: str) -> None:
    """With the longest names in at most 1,024 characters."""
    for streams in (exact(stream), prefix(stream)):
        ticket = ReadTicket(2**63, TimestampMs(2**62), "b" * 48, streams)
        token = replace(TOKENS[0], serial=2**63)
        text = ticket_text(ticket, token)
        assert len(text) <= 1024
        assert parse_ticket(text).open(token) == ticket
        with pytest.raises(UnauthenticatedError, match="tampered"):
            parse_ticket(text).open(replace(token, secret_hash=bytes(32)))


def test_a_text_of_any_length_is_refused_as_no_ticket() -> None:
    """Also where it has a character more than base64 can have: its sender is told so, and nobody
    else."""
    true = ticket_text(TICKET, TOKENS[1])
    mark = true[:5]
    for length in range(1030):
        bits = "m" * length
        for checksum in ("0" * 8, hashlib.sha256(bits.encode()).hexdigest()[:8]):
            with pytest.raises(UnauthenticatedError, match="tampered"):
                parse_ticket(mark + bits + checksum)


def test_a_version_that_is_not_known_opens_nothing() -> None:
    """What a later gateway seals in another way is told as not whole, not misread."""
    data = content_of(ticket_text(TICKET, TOKENS[1]))
    with pytest.raises(UnauthenticatedError, match="tampered"):
        parse_ticket(whole(b"\x02" + data[1:]))
