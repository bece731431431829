"""Which roles may ask a node for what: one table, and the rule for what is not in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svc_cluster.base.errors import ErrorCode, ServiceError, UnavailableError

NODE: Final = "node"
GATEWAY: Final = "gateway"

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

    def check(self, operation: str | None) -> None:
        """Raises ServiceError, without effect, for an operation that this caller may not have."""
        if self.refusal is not None:
            raise UnavailableError(self.refusal)
        if self.role not in ROLES.get(operation or "", EVERYDAY):
            raise NotForThisRoleError(f"a {self.role} may not ask for {operation}")


OWN: Final = CallerRights(NODE)
"""The admission of the node itself."""


class NotForThisRoleError(ServiceError):
    """The caller has proved who it is, and is not one that may ask for this."""

    code = ErrorCode.PERMISSION_DENIED
