"""Why a node's administration could not be talked to, and what to do about it; pure.

gRPC says UNAVAILABLE for a port on which nothing listens as for a certificate of another node, and
the cause only in words. What is not known here is told as the library tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FILES: Final = "--tls-cert, --tls-key and --tls-ca"


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """A NoAnswer is a predicate behind the address, and what to check."""

    what: str
    advice: str


def look(details: str, *, by_tls: bool, by_id: bool) -> NoAnswer:
    """Return what `details`, the library's words, come from. `by_tls`: the caller spoke TLS;
    `by_id`: and expected a certificate for the id of a node."""
    for signs, found in _KNOWN:
        if any(sign in details for sign in signs):
            return found
    if "Hostname Verification" in details:
        if by_id:
            return NoAnswer("is not that node", "its certificate is another's: check --node")
        return NoAnswer(
            "is not known by that address", "name it by --node, whose id its certificate carries"
        )
    if any(sign in details for sign in _CLOSED):
        if by_tls:
            return NoAnswer(
                "hangs up",
                "it does not take this certificate, or is just ending: check --tls-cert, and that "
                "it is of the cluster's CA",
            )
        return NoAnswer("hangs up", f"it asks for TLS, or is just ending: name {_FILES}")
    return NoAnswer("does not answer", f"check the address and {_FILES}")


_CLOSED: Final = ("Socket closed", "Connection reset", "Broken pipe", "EOF")
_KNOWN: Final = (
    (
        ("Connection refused",),
        NoAnswer(
            "refuses connections",
            "nothing listens there: is it started, and is that its `admin_rpc_address`?",
        ),
    ),
    (
        ("lookup", "resolving", "Name or service not known"),
        NoAnswer("cannot be found", "nobody knows that host: check the name, and who resolves it"),
    ),
    (
        ("Network is unreachable", "No route to host", "timed out", "Deadline Exceeded"),
        NoAnswer(
            "does not answer in time",
            "it is away, too busy, or behind a firewall that drops "
            "what comes: check the address and the way to it",
        ),
    ),
    (
        ("WRONG_VERSION_NUMBER",),
        NoAnswer("does not speak TLS", f"leave out {_FILES}, or check the port"),
    ),
    (
        ("http1.x server", "Failed parsing HTTP/2"),
        NoAnswer("is another service", "give the address of administration (`admin_rpc_address`)"),
    ),
    (
        ("has expired", "CERTIFICATE_EXPIRED"),
        NoAnswer("shows a certificate that has expired", "renew it; no restart is needed"),
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        NoAnswer(
            "shows a certificate that is not trusted",
            "check --tls-ca: it holds the CA that the node's certificate is of",
        ),
    ),
)
"""In this order: the first that fits counts."""
