"""What may be the reason of a frozen basin, which refused appends are told. Pure."""

from __future__ import annotations

from svc_cluster.base.limits import FREEZE_REASON_BYTES_MAX


def why_no_reason(reason: str) -> str | None:
    """Return one sentence; None: it may be. Nothing at all may be too: it is the thaw."""
    if not reason:
        return None
    if not reason.strip():
        return "a reason is not blank: refused appends are told it"
    if not reason.isprintable():
        return "a reason is printable text, without control characters"
    if len(reason.encode()) > FREEZE_REASON_BYTES_MAX:
        return f"a reason has at most {FREEZE_REASON_BYTES_MAX} bytes"
    return None
