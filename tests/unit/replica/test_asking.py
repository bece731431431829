"""Who came up with an empty directory asks as long as it says so, and not behind its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from svc_cluster.base.ids import NodeId
from svc_cluster.base.log import get_logger
from svc_cluster.link.handshake import Identity
from svc_cluster.model.formation import Asking, FormationRecord, FormationReport, Stage
from svc_cluster.replica.formation_rounds import Formation
from svc_cluster.replica.former import ASKING_SECONDS, REFUSED_SECONDS, Former
from svc_cluster.replica.link_server import ServiceCaller
from tests.unit.replica.test_formation_file import Nobody

OWN, OLD, EMPTY = "a" * 32, "b" * 32, "c" * 32
ONE, TWO = NodeId(1), NodeId(2)
LIST = ((ONE, OWN), (TWO, OLD))


class _Node:
    """Node 1 of two, which has formed, and its time."""

    def __init__(self) -> None:
        self.now = 0.0
        record = FormationRecord(1, Stage.FORMED, LIST)
        formation = Formation(ONE, OWN, (ONE, TWO), record, has_log=True, registrations=tuple)
        clock: Any = SimpleNamespace(monotonic=lambda: self.now)
        file: Any = None
        self.former = Former(
            formation,
            file,
            Nobody(),
            clock=clock,
            log=get_logger("formation"),
            is_peer_up=lambda _: False,
            has_space=lambda: True,
            forget=lambda _: None,
            on_raised=lambda: None,
            on_failure=lambda _: None,
        )

    def hear(self, incarnation: str = EMPTY) -> None:
        report = FormationReport(TWO, incarnation, 0, Stage.GATHERING, (), newest=7)
        self.former.answer(report)

    def is_asked_now(self) -> bool | None:
        """None: nobody has asked of late."""
        asks = self.former.asking().get(TWO)
        return None if asks is None else asks.is_now


def test_who_does_not_say_it_again_asks_no_more() -> None:
    """It still counts as refused for a while: a volume of its own is probably not mounted."""
    node = _Node()
    assert node.is_asked_now() is None
    node.hear()
    node.now = ASKING_SECONDS - 0.1
    assert node.is_asked_now()
    node.now = ASKING_SECONDS
    assert node.is_asked_now() is False
    node.hear()
    asks = node.former.asking()[TWO]
    assert asks == Asking(EMPTY, ASKING_SECONDS, is_now=True, newest=7)
    node.now += REFUSED_SECONDS
    assert node.is_asked_now() is None
    assert ASKING_SECONDS == 3.0


def test_who_is_disconnected_asks_no_more_until_it_says_so_again() -> None:
    """The end of a conversation under another directory says nothing of this one."""
    node = _Node()
    node.hear()
    node.former.left(TWO, OLD)
    assert node.is_asked_now()
    node.former.left(TWO, EMPTY)
    assert node.is_asked_now() is False
    node.former.left(TWO, EMPTY)
    node.hear()
    assert node.is_asked_now()
    node.former.left(NodeId(3), EMPTY)


def test_the_end_of_a_nodes_conversation_is_the_end_of_its_asking() -> None:
    """A gateway's says nothing of a node, whatever it calls itself."""
    node = _Node()
    node.hear()
    session = SimpleNamespace(takes_stages=False, close=lambda: None)
    version = SimpleNamespace(gateway_talks=lambda *said, begins: None)
    around: Any = SimpleNamespace(
        former=node.former,
        service=SimpleNamespace(session=lambda *asked: session),
        services=SimpleNamespace(version=version),
    )
    wire: Any = None
    for role, is_now in (("gateway", True), ("node", False)):
        ServiceCaller(around, Identity("cluster", role, TWO, EMPTY), wire).link_down()
        assert node.is_asked_now() is is_now
