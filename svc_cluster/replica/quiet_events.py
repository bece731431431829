"""Which events bring a group nothing to carry out: a drain is dear, and there are many of them."""

from __future__ import annotations

from svc_cluster.base.ids import Term
from svc_cluster.raft.group import Event, Message, RaftGroup, Role, Tick
from svc_cluster.raft.messages import AppendResponse
from svc_cluster.replica.seamed import seam_of


def brings_nothing(event: Event, engine: RaftGroup, seen: tuple[Role, Term]) -> bool:
    """Whether nothing is to be done because of `event`, which the engine has dealt with. So it is
    with a tick nearly always, and with an acknowledgement behind that of a quorum. `seen`: the role
    and term that the group has made known."""
    if isinstance(event, Tick):
        return engine.is_idle(seen)
    if not (isinstance(event, Message) and isinstance(event.body, AppendResponse)):
        return False
    seam = seam_of(engine)
    # it may be of a later configuration: that is looked at behind a drain
    return (seam is None or seam.behind is None) and engine.is_idle(seen)
