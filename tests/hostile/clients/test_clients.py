"""One client who does not behave, beside others who do: these see nothing but 200, and
now and then a definite refusal that says when to come again; every append that they were answered
is there once, each process keeps to its budget, and nobody loses a lead."""

from __future__ import annotations

import asyncio

import pytest

from tests.hostile.clients.attacks import (
    BOMBS,
    CONNECTIONS,
    FOLLOWERS,
    GHOSTS,
    READS_AT_ONCE,
)
from tests.hostile.clients.floods import NAMES, PAGE_LINES, SESSIONS, STREAMS, UNREAD, VANISHING
from tests.hostile.clients.scene import BUSY, STREAMS_OPEN_MAX, Scene
from tests.hostile.scale import SCALE

pytestmark = pytest.mark.timeout(300 * SCALE)


def test_large_reads_at_once_harm_nobody(scene: Scene) -> None:
    """Connections of a token that may only read ask for a hundred records of 0.9 MB each."""
    answered = asyncio.run(scene.under("big reads", scene.reader))
    assert sum(answered.values()) <= CONNECTIONS * READS_AT_ONCE + CONNECTIONS


def test_followers_from_the_beginning_harm_nobody(scene: Scene) -> None:
    """They behave: they only come all at once."""
    answered = asyncio.run(scene.under("followers", scene.reader))
    assert sum(answered.values()) in (1, FOLLOWERS)


def test_bodies_that_unpack_to_millions_of_records_harm_nobody(scene: Scene) -> None:
    """Each is refused, and nothing of it is appended."""
    answered = asyncio.run(scene.under("bombs", scene.issuer))
    assert set(answered) <= {"400", "413", "422"} and answered.total() == BOMBS, answered


def test_requests_with_values_at_the_ends_of_their_types_harm_nobody(scene: Scene) -> None:
    """Beside six busy clients on six basins; each of these requests is answered, none with 500."""
    answered = asyncio.run(scene.under("ghosts", scene.issuer, busy=BUSY))
    assert answered.total() == GHOSTS, answered
    assert not {status for status in answered if status == "500" or not status.isdigit()}, answered


def test_heads_that_do_not_end_harm_nobody(scene: Scene) -> None:
    """All that is kept of them is bounded: most of the connections are gone while they wait."""
    answered = asyncio.run(scene.under("half heads", scene.reader))
    assert answered["ended"] > answered["open"], answered


def test_floods_of_frames_and_clients_that_vanish_harm_nobody(scene: Scene) -> None:
    """Each flood ends its connection."""
    answered = asyncio.run(scene.under("frames", scene.reader))
    assert answered["vanished"] == VANISHING and not answered["open"], answered


def test_sessions_that_say_nothing_and_followers_of_new_streams_harm_nobody(scene: Scene) -> None:
    """More of them at once than may be open: those beyond are refused, and all give back what they
    took."""
    answered = asyncio.run(scene.under("sessions", scene.issuer))
    assert answered.total() == 2 * SESSIONS, answered
    assert 2 * SESSIONS * STREAMS > 2 * STREAMS_OPEN_MAX
    assert asyncio.run(scene.metric('svc_http_requests_shed_total{reason="streams"}')) > 0
    asyncio.run(scene.until_no_stream_is_open())


def test_names_that_nobody_knows_harm_nobody(scene: Scene) -> None:
    """Each is refused or answered, none with 500, and none is remembered for long."""
    answered = asyncio.run(scene.under("names", scene.reader))
    assert answered.total() == 6 * NAMES, answered
    assert not {status for status in answered if status == "500" or not status.isdigit()}, answered


def test_pages_that_nobody_reads_harm_nobody(scene: Scene) -> None:
    """Whoever asks for them shows no token, and has them compressed or not."""
    answered = asyncio.run(scene.under("pages", scene.reader))
    assert answered["asked"] >= PAGE_LINES + UNREAD // 2, answered


def test_what_is_sent_ahead_harms_nobody(scene: Scene) -> None:
    """Behind requests whose answers take long; both those that are read plainly and others."""
    answered = asyncio.run(scene.under("ahead", scene.reader))
    assert answered.total() >= UNREAD // 2, answered
