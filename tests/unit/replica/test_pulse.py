"""What is known of another node by its beats."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import GroupId, Term
from svc_cluster.raft.messages import Beat
from svc_cluster.replica.pulse import (
    DIFFERENCE_SECONDS,
    EXCUSED_SECONDS,
    RECENT_SECONDS,
    SILENCE_SECONDS,
    Heard,
    Pulse,
)
from svc_cluster.replica.rest_pact import RestPact


def _beat(boot: int = 7, count: int = 0, digest: int = 0) -> Beat:
    return Beat(boot, count, digest, lists=False)


def _heard(now: float = 0.0) -> Pulse:
    pulse = Pulse(now)
    assert pulse.heard(_beat(), 0, 0, now) is Heard.SAME
    return pulse


def test_a_node_lives_from_its_first_beat_on() -> None:
    """Until then nothing rests with it."""
    assert not Pulse(0.0).lives(0.0)
    assert _heard().lives(RECENT_SECONDS - 0.01)
    assert not _heard().lives(RECENT_SECONDS)


def test_silence_is_told_once() -> None:
    """Behind a second of it, and again only when the node was heard in between."""
    pulse = _heard()
    assert not pulse.falls_silent(SILENCE_SECONDS - 0.01)
    assert pulse.falls_silent(SILENCE_SECONDS)
    assert not pulse.falls_silent(SILENCE_SECONDS + 1)
    pulse.heard(_beat(), 0, 0, 3.0)
    assert pulse.lives(3.0)
    assert pulse.falls_silent(3.0 + SILENCE_SECONDS)


def test_a_connection_that_ends_is_told_at_once() -> None:
    """And not again while the node is lost."""
    pulse = _heard()
    assert pulse.link_down()
    assert not pulse.link_down()
    assert not pulse.lives(0.0)


def test_standing_still_is_not_the_others_silence() -> None:
    """A process that was stopped for half a minute gives everybody the time it took."""
    pulse = _heard()
    pulse.forgive(30.0, 30.5)
    assert not pulse.falls_silent(30.5)
    assert pulse.falls_silent(30.0 + SILENCE_SECONDS)


def test_another_boot_number_is_another_life() -> None:
    """Whatever it counts: it may be the same number of groups by chance, none for example."""
    pulse = _heard()
    assert pulse.heard(_beat(boot=8), 0, 0, 0.1) is Heard.NEW_LIFE
    assert pulse.heard(_beat(boot=8), 0, 0, 0.2) is Heard.SAME


@pytest.mark.parametrize("beat", [_beat(count=1), _beat(digest=1)])
def test_a_difference_that_stays_is_told(beat: Beat) -> None:
    """Behind a second, and each second again; one that passes is not."""
    pulse = _heard()
    assert pulse.heard(beat, 0, 0, 0.1) is Heard.SAME
    assert pulse.heard(_beat(), 0, 0, 0.9) is Heard.SAME
    assert pulse.heard(beat, 0, 0, 1.0) is Heard.SAME
    assert pulse.heard(beat, 0, 0, 1.0 + DIFFERENCE_SECONDS) is Heard.DIFFERS
    assert pulse.heard(beat, 0, 0, 1.1 + DIFFERENCE_SECONDS) is Heard.SAME
    assert pulse.heard(beat, 0, 0, 1.0 + 2 * DIFFERENCE_SECONDS) is Heard.DIFFERS


def test_a_node_is_excused_when_it_has_been_lost_for_long() -> None:
    """Also one that was never heard."""
    pulse = _heard(2.0)
    assert pulse.falls_silent(2.0 + SILENCE_SECONDS)
    assert not pulse.is_excused(1.9 + EXCUSED_SECONDS)
    assert pulse.is_excused(2.0 + EXCUSED_SECONDS)
    assert Pulse(0.0).is_excused(EXCUSED_SECONDS)


def test_the_digest_of_a_pact_is_of_what_is_in_it() -> None:
    """In whatever order it came, without what has left, and with the terms."""
    one, other = RestPact(), RestPact()
    one.add(GroupId(2), Term(1))
    one.add(GroupId(3), Term(1))
    other.add(GroupId(4), Term(9))
    other.add(GroupId(3), Term(1))
    other.add(GroupId(2), Term(1))
    assert one.digest != other.digest
    other.remove(GroupId(4))
    assert (one.digest, one.listed()) == (other.digest, other.listed())
    other.remove(GroupId(3))
    other.add(GroupId(3), Term(2))
    assert (len(one), one.digest != other.digest) == (len(other), True)
    assert one.without(dict(other.listed())) == [GroupId(3)]
