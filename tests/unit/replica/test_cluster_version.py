"""By which version a node goes: what its catalog has applied and its directory says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.greeting import Speaker
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.model.versions import FIRST, Spoken
from svc_cluster.replica.cluster_version import ClusterVersion

NEXT = FIRST + 1


def test_a_version_counts_once_the_directory_says_so() -> None:
    """Until then nothing newer is written, and nobody who does not speak it is let in; several
    steps at a time are written one after the other, and none goes back."""
    writes: list[tuple[int, Callable[[], None]]] = []
    version = ClusterVersion(Spoken(2, 9), FIRST, lambda *write: writes.append(write))
    version.applied(NEXT)
    assert (version.active, version.seen) == (FIRST, NEXT)
    version.applied(NEXT + 1)
    assert len(writes) == 1
    writes.pop()[1]()
    assert (version.active, version.seen) == (NEXT, NEXT + 1)
    writes.pop()[1]()
    assert version.active == version.seen == NEXT + 1
    version.applied(FIRST)
    assert version.active == version.seen == NEXT + 1
    assert writes == []


def test_who_does_not_speak_what_the_catalog_has_is_refused_by_name() -> None:
    """Also while this node's directory does not say it yet: others may go by it already."""
    version = ClusterVersion(Spoken(2, 3), FIRST, lambda *_: None)
    speaker = Speaker(Identity("c", "node", NodeId(4), "i"), versions=Spoken(2, 2))
    version.check(speaker)
    version.applied(NEXT)
    with pytest.raises(HandshakeError, match=r"node 4 is too old: .* version 2 .* version 3"):
        version.check(speaker)
    gateway = Speaker(Identity("c", "gateway", NodeId(0), "i"), versions=Spoken(4, 5))
    with pytest.raises(HandshakeError, match=r"the gateway is too new: .*4 to 5.*version 3"):
        version.check(gateway)


def test_gateways_that_talk_are_known_until_their_last_conversation_ends() -> None:
    """One that lost a connection may have two for a moment; two processes are two."""
    version = ClusterVersion()
    for process, newest in (("a", 2), ("a", 2), ("b", 3)):
        version.gateway_talks(process, newest, begins=True)
    version.gateway_talks("a", 2, begins=False)
    assert set(version.gateways) == {("a", 2), ("b", 3)}
    version.gateway_talks("a", 2, begins=False)
    assert set(version.gateways) == {("b", 3)}


def test_whoever_waits_for_a_version_is_told_once_the_directory_names_it() -> None:
    """Not when the catalog has it: until then the node still goes by the one before."""
    kept: list[Callable[[], None]] = []
    version = ClusterVersion(Spoken(2, 3), FIRST, lambda _, done: kept.append(done))
    told: list[int] = []
    version.on_active = lambda: told.append(version.active)
    version.applied(FIRST + 1)
    assert told == []
    kept.pop()()
    assert told == [FIRST + 1]
