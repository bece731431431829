"""What a gateway knows of the tokens, until when it may go by that, and what it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from svc_cluster.base.errors import DeadlineError, UnauthenticatedError, UnavailableError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.catalog.leases import LEASE_SECONDS
from svc_cluster.gateway.access.authentication import TokenHolder, bearer_secret
from svc_cluster.gateway.access.token_directory import TokenDirectory
from svc_cluster.gateway.cluster.token_client import TokenNews
from svc_cluster.http.message import Request
from svc_cluster.model.access import ROOT_SCOPE
from svc_cluster.model.access_secret import secret_text
from svc_cluster.model.access_token import AccessToken, Expiry


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.wall = 1_000

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> TimestampMs:
        return TimestampMs(self.wall)


def token(serial: int, expires_ms: int | None = None, mark: bytes = b"") -> AccessToken:
    expiry = None if expires_ms is None else Expiry("then", expires_ms * 1_000_000)
    return AccessToken(
        serial, f"t{serial}", b"%d" % serial + mark, 0, ROOT_SCOPE, expires_at=expiry
    )


def news(version: int, *changes: tuple[int, AccessToken | None], granted: bool = True) -> TokenNews:
    return TokenNews(granted, version, behind=False, changes=changes, all_read=False)


def page(version: int, *tokens: AccessToken, last: bool) -> TokenNews:
    return TokenNews(False, version, False, tuple((t.serial, t) for t in tokens), last)


BEHIND = TokenNews(granted=False, version=9, behind=True, changes=(), all_read=False)


def test_a_lease_runs_from_when_it_was_asked_for() -> None:
    """Not from when the answer came; and an answer to an earlier question does not shorten it."""
    clock = HandClock()
    directory = TokenDirectory(clock)
    fresh = [directory.is_fresh]
    assert directory.take(news(0), 98.0)
    clock.now = 98.0 + LEASE_SECONDS - 0.01
    fresh.append(directory.is_fresh)
    directory.take(news(0), 97.0)
    fresh.append(directory.is_fresh)
    clock.now = 98.0 + LEASE_SECONDS
    fresh.append(directory.is_fresh)
    assert fresh == [False, True, True, False]


def test_what_is_new_is_confirmed_at_once() -> None:
    """A change makes the gateway ask again without waiting, to say that it has it."""
    directory = TokenDirectory(HandClock())
    assert not directory.take(news(1, (1, token(1))), 100.0)
    assert directory.version == 1
    assert directory.take(news(1), 100.0)
    assert not directory.take(news(5, (1, None), granted=False), 100.0)
    assert directory.find(b"1") is None


def test_an_older_answer_takes_nothing_back() -> None:
    directory = TokenDirectory(HandClock())
    directory.take(news(2, (1, token(1)), (1, None)), 100.0)
    directory.take(news(1, (1, token(1))), 100.0)
    assert (directory.version, directory.find(b"1")) == (2, None)


def test_pages_replace_the_table_when_the_last_one_is_there() -> None:
    """Until then what was known stays; then what is not among them is gone; the version is that of
    the first page, so that whatever came meanwhile is asked for."""
    directory = TokenDirectory(HandClock())
    directory.take(news(1, (1, token(1)), (2, token(2))), 100.0)
    assert not directory.take(BEHIND, 100.0)
    after = [directory.reading_after]
    assert not directory.take(page(7, token(2), last=False), 100.0)
    after.append(directory.reading_after)
    assert directory.find(b"1") is not None
    assert not directory.take(page(8, token(3), last=True), 100.0)
    after.append(directory.reading_after)
    assert (after, directory.version) == ([0, 2, None], 7)
    assert directory.find(b"1") is None
    assert directory.find(b"2") is not None and directory.find(b"3") is not None


def test_a_replaced_hash_ends_the_old_one() -> None:
    """The root token's: same serial, another secret."""
    directory = TokenDirectory(HandClock())
    directory.take(news(1, (1, token(1))), 100.0)
    old = directory.find(b"1")
    assert old is not None
    directory.take(news(2, (1, token(1, mark=b"new"))), 100.0)
    assert directory.find(b"1") is None
    assert isinstance(directory.fault(old), UnauthenticatedError)


def test_a_token_that_was_found_is_good_as_long_as_nothing_has_changed() -> None:
    """What is told anew is looked up anew, be it the same; the lease and the token both end."""
    clock = HandClock()
    directory = TokenDirectory(clock)
    found = token(1, expires_ms=5_000)
    good = [directory.has(found)]
    directory.take(news(1, (1, found), granted=False), 100.0)
    good.append(directory.has(found))
    directory.take(news(1), 100.0)
    good.append(directory.has(found))
    clock.now += LEASE_SECONDS
    good.append(directory.has(found))
    directory.take(news(1), clock.now)
    good.append(directory.has(found))
    clock.wall = 5_000
    good.append(directory.has(found))
    clock.wall = 4_999
    good.append(directory.has(found))
    directory.take(news(2, (1, token(1, expires_ms=5_000))), clock.now)
    good.append(directory.has(found))
    assert good == [False, False, True, False, True, False, True, False]


def test_the_end_of_a_token_forgets_no_other_with_its_secret() -> None:
    """An expired token and a valid one may have one secret: where the older goes, the newer stays
    known, and with the newer the secret goes."""
    clock = HandClock()
    directory = TokenDirectory(clock)
    old, new = (replace(token(serial), secret_hash=b"same") for serial in (1, 2))
    directory.take(news(1, (1, old), (2, new)), 100.0)
    assert directory.find(b"same") == new
    directory.take(news(2, (1, None)), 100.0)
    assert directory.find(b"same") == new
    assert directory.fault(new) is None
    directory.take(news(3, (2, None)), 100.0)
    assert directory.find(b"same") is None


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("revoked", UnauthenticatedError),
        ("expired", UnauthenticatedError),
        ("no lease", UnavailableError),
    ],
)
def test_whatever_waits_is_ended(what: str, kind: type[Exception]) -> None:
    """A block that waits for ever ends with the reason; its task is not left cancelled."""
    clock = HandClock()
    directory = TokenDirectory(clock)
    mine = token(1, expires_ms=2_000)
    directory.take(news(1, (1, mine)), 100.0)
    holder = TokenHolder(directory, mine)

    async def main() -> None:
        async def wait() -> None:
            with pytest.raises(kind):
                async with holder.while_valid():
                    await asyncio.Event().wait()
            await asyncio.sleep(0)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        directory.sweep()
        await asyncio.sleep(0)
        assert not task.done()
        if what == "revoked":
            directory.take(news(2, (1, None)), 100.0)
        elif what == "expired":
            clock.wall = 2_000
        else:
            clock.now += LEASE_SECONDS
        directory.sweep()
        await task
        with pytest.raises(kind):
            holder.check()
        with pytest.raises(kind):
            async with holder.while_valid():
                raise AssertionError("it was let in")

    asyncio.run(main())


def test_a_write_gets_its_grace_and_then_tells_of_its_effects() -> None:
    """What is done in time is done; what is not may have had its effect."""
    directory = TokenDirectory(HandClock())
    mine = token(1)
    directory.take(news(1, (1, mine)), 100.0)
    holder = TokenHolder(directory, mine)

    async def main() -> None:
        acked = asyncio.Event()

        async def write(grace_seconds: float) -> None:
            async with holder.while_valid(grace_seconds, is_write=True):
                await acked.wait()

        quick = asyncio.create_task(write(60.0))
        slow = asyncio.create_task(write(0.01))
        await asyncio.sleep(0)
        directory.take(news(2, (1, None)), 100.0)
        with pytest.raises(UnauthenticatedError) as caught:
            await slow
        assert caught.value.may_have_taken_effect
        acked.set()
        await quick

    asyncio.run(main())


def test_without_a_lease_the_outcome_of_a_write_is_unknown() -> None:
    clock = HandClock()
    directory = TokenDirectory(clock)
    mine = token(1)
    directory.take(news(1, (1, mine)), 100.0)

    async def main() -> None:
        async with TokenHolder(directory, mine).while_valid(is_write=True):
            clock.now += LEASE_SECONDS
            directory.sweep()
            await asyncio.Event().wait()

    with pytest.raises(DeadlineError):
        asyncio.run(main())


def test_a_cancelled_task_is_cancelled() -> None:
    """Somebody else's cancellation passes through, and nothing is watched behind it."""
    directory = TokenDirectory(HandClock())
    mine = token(1)
    directory.take(news(1, (1, mine)), 100.0)

    async def main() -> None:
        async def wait() -> None:
            async with TokenHolder(directory, mine).while_valid():
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        directory.take(news(2, (1, None)), 100.0)

    asyncio.run(main())


SECRET = secret_text(bytes(32))


@pytest.mark.parametrize(
    "value", [f"Bearer {SECRET}", f"bearer {SECRET}", f"BEARER  {SECRET}", f"Bearer {SECRET} "]
)
def test_a_bearer_token_is_found(value: str) -> None:
    request = Request("GET", "/", "", [("authorization", value)])
    assert bearer_secret(request) == SECRET


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        f"Bearer{SECRET}",
        SECRET,
        f"Basic {SECRET}",
        f"Bearer {SECRET}x",
        "Bearer \xff",
        "Bearer " + "x" * 100_000,
        f"Bearer {SECRET}, Bearer {SECRET}",
        f"Bearer {SECRET[:-1]}",
    ],
)
def test_what_is_no_bearer_token_is_refused(value: str) -> None:
    request = Request("GET", "/", "", [("authorization", value)])
    with pytest.raises(UnauthenticatedError):
        bearer_secret(request)


def test_an_id_leads_to_its_newest_token_alone() -> None:
    """Whatever the order in which the end of the older and the newer are told; and to none once
    that is gone, or over."""
    clock = HandClock()
    older, newer = (replace(token(serial), token_id="same") for serial in (1, 2))
    for changes in (
        ((1, older), (1, None), (2, newer)),
        ((1, older), (2, newer), (1, None)),
        ((2, newer), (1, older)),
    ):
        directory = TokenDirectory(clock)
        directory.take(news(1, *changes), 100.0)
        assert directory.of_id("same") == newer
        directory.take(news(2, (2, None)), 100.0)
        assert directory.of_id("same") is None
    directory = TokenDirectory(clock)
    directory.take(news(1, (3, token(3, expires_ms=2_000))), 100.0)
    assert directory.of_id("t3") is not None and not directory.id_has_expired("t3")
    clock.wall = 2_000
    assert (directory.of_id("t3"), directory.id_has_expired("t3")) == (None, True)
    assert not directory.id_has_expired("t4")
