"""Which roles may ask a node for what: one table, and the rule for what is not in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster._pb.cluster.v1.replica_pb2 import JoinClusterRequest
from svc_cluster.base.errors import ErrorCode, InvalidError, ServiceError, UnavailableError

NODE: Final = "node"
GATEWAY: Final = "gateway"
JOINER: Final = "joining node"
"""It has proved the cluster secret, and is no node of the cluster yet."""

ROLES: Final[dict[str, frozenset[str]]] = {
    "register_node": frozenset({NODE}),
    "replace_node": frozenset({NODE}),
    "remove_basin": frozenset({NODE}),
    "set_root_token": frozenset({NODE}),
    "hand_on_leases": frozenset({NODE}),
    "get_version": frozenset({NODE}),
    "raise_version": frozenset({NODE}),
    "view_group": frozenset({NODE}),
    "list_led": frozenset({NODE}),
    "give_lead": frozenset({NODE}),
    "balance_leads": frozenset({NODE}),
    "freeze_basin": frozenset({NODE}),
    "drain_node": frozenset({NODE}),
    "add_member": frozenset({NODE}),
    "remove_member": frozenset({NODE}),
    "join_cluster": frozenset({NODE, JOINER}),
    "plan_placement": frozenset({NODE}),
    "fetch_committed": frozenset({NODE}),
    "report_change": frozenset({NODE}),
    "change_members": frozenset({NODE}),
}
"""Operations that change who belongs to the cluster and who may do everything, and that are of one
leader with the next, by the role that the caller has proved."""

EVERYDAY: Final = frozenset({NODE, GATEWAY})
"""Who may ask for the operations that are not in the table. An administrator has a service of its
own, on another port."""


@dataclass(frozen=True, slots=True)
class CallerRights:
    """What a caller may ask at the moment."""

    role: str
    refusal: str | None = None
    """Why the cluster goes on without this caller; then it may ask for nothing."""
    is_final: bool = False
    """It will never be otherwise."""
    joins_as: tuple[int, str] | None = None
    """Node id and incarnation that a newcomer has greeted with; None: it is no newcomer."""

    def check(self, operation: str | None) -> None:
        """Raises ServiceError, without effect, for an operation that this caller may not have."""
        if self.refusal is not None:
            if self.is_final:
                raise InvalidError(self.refusal)
            raise UnavailableError(self.refusal)
        if self.role not in ROLES.get(operation or "", EVERYDAY):
            raise NotForThisRoleError(f"a {self.role} may not ask for {operation}")

    def check_join(self, asked: JoinClusterRequest) -> None:
        """Raises InvalidError for a newcomer that asks in another one's name.

        A token is good for the node that it was made for, and no stranger says where a node is."""
        own = self.joins_as
        named = (asked.node.node_id, asked.node.incarnation)
        if own is not None and (asked.forwarded or named != own):
            raise InvalidError("a node comes to the cluster in its own name")


OWN: Final = CallerRights(NODE)
"""The admission of the node itself."""


class NotForThisRoleError(ServiceError):
    """The caller has proved who it is, and is not one that may ask for this."""

    code = ErrorCode.PERMISSION_DENIED
