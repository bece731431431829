"""These are the rules of each operation of a node, by the name of its request's field.

They say whether it writes, whether a node that is busy refuses it, and how much room its answer
needs.
"""

from __future__ import annotations

from typing import Final

from svc_cluster.base.limits import READ_BYTES_MAX

WRITES: Final = frozenset(
    {
        "create_stream",
        "ensure_stream",
        "reconfigure_stream",
        "auto_create_stream",
        "delete_stream",
        "ensure_basin_config",
        "reconfigure_basin",
        "seal_basin",
        "freeze_basin",
        "create_basin",
        "create_placed_basin",
        "delete_basin",
        "register_node",
        "replace_node",
        "drain_node",
        "add_member",
        "join_cluster",
        "remove_member",
        "remove_basin",
        "issue_token",
        "revoke_token",
        "set_root_token",
        "set_default_location",
        "raise_version",
        "report_change",
        "change_members",
    }
)
"""Operations whose answer after the deadline is "unknown", not "not done"."""

CHANGES: Final = WRITES | {"report_usage"}
"""Operations that queue a command. Nobody can end one that is begun: it costs its caller and the
node what it did until its outcome is known or its deadline is over, whoever still waits for it."""

UNDOING: Final = frozenset(
    {
        "revoke_token",
        "set_root_token",
        "delete_basin",
        "delete_stream",
        "seal_basin",
        "freeze_basin",
        "remove_basin",
    }
)
"""Changes that take something away, and so are what ends a shortage or a misuse: a full memory
does not refuse them. They are small, and few by the places that callers have."""

NEVER_REFUSED: Final = frozenset({"renew_lease", "hand_on_leases"})
"""Operations without which no request of anybody would be answered before long..."""

UNREFUSED_BYTES_MAX: Final = 4 * 1024
"""...if the request is as short as one needs to be."""

LIST_BYTES: Final = 512 * 1024
"""About what a long page of a list, or of usage, takes."""

ROOM_BYTES: Final = {
    "read": READ_BYTES_MAX,
    "list_streams": LIST_BYTES,
    "list_basins": LIST_BYTES,
    "list_tokens": LIST_BYTES,
    "get_usage": LIST_BYTES,
    "get_storage": LIST_BYTES,
    "fetch_committed": READ_BYTES_MAX,
}
"""Operations with long answers, and about how long. A read of less says so (`portion_bytes`), and
has no room while it waits at the tail."""
