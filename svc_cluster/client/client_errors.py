"""What a client of the public interface is told when a call does not go well: one sentence, with
what to do about it."""

from __future__ import annotations

import os
import ssl
from typing import Final

import msgspec

from svc_cluster.base.telling import quoted
from svc_cluster.client.stream_key import asks_for_key, key_advice
from svc_cluster.http.client import ConnectionLostError, HttpResponse

PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses behind which the same request may go well, together with the codes in PASSING_CODES."""
PASSING_CODES: Final = frozenset({"transaction_conflict"})
"""Codes behind which it may, whatever their status is."""
PASSING_EVENTS: Final = PASSING_CODES | {
    "hot_server",
    "internal",
    "other",
    "rate_limited",
    "request_timeout",
    "server_draining",
    "storage",
    "unavailable",
    "upstream_timeout",
}
"""Codes in the last event of a followed stream behind which it can be followed again."""

_MESSAGE_CHARACTERS_MAX: Final = 1000
_ADVICE: Final = {
    401: "name a file that holds a valid access token with --token-file or in a profile, or set "
    "S2_ACCESS_TOKEN",
    403: "use an access token whose scope has this operation and these names",
}


class ClientError(Exception):
    """One sentence for the person who asked."""


class AwayError(ClientError):
    """Nothing answered, or what answered went away. `sent`: it had been asked by then, so that a
    write may have happened."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class UntrustedError(ClientError):
    """The server's certificate is not one that is trusted here, or there is none."""


class OutcomeUnknownError(ClientError):
    """A write may have happened, and nobody could be asked about it in time."""


class AnswerRefusedError(ClientError):
    """The server has answered that it does not do it."""

    def __init__(
        self, status: int, code: str, message: str, body: bytes = b"", advice: str = ""
    ) -> None:
        """`advice`: what to do, where that does not follow from the status."""
        if status in _ADVICE:
            advice = f"; {_ADVICE[status]}"
        super().__init__(f"{status} {code}: {message}{advice}")
        self.status = status
        self.code = code
        self.body = body

    @property
    def is_passing(self) -> bool:
        """Whether the same request may go well a moment later."""
        return self.status in PASSING or self.code in PASSING_CODES


class _ErrorBody(msgspec.Struct):
    code: str = ""
    message: str = ""
    seq_num_mismatch: int | None = None
    fencing_token_mismatch: str | None = None


def refusal(response: HttpResponse, key_option: str) -> AnswerRefusedError:
    """Return what an answer that is no success says. `key_option`: what names the file of a
    stream's key."""
    try:
        told = msgspec.json.decode(response.body, type=_ErrorBody)
    except msgspec.DecodeError:
        told = _ErrorBody("", "the answer is not one of this service: check the address")
    return AnswerRefusedError(
        response.status,
        told.code or _CODES.get(response.status, "refused"),
        _message(response.status, told)[:_MESSAGE_CHARACTERS_MAX],
        response.body,
        key_advice(key_option) if asks_for_key(told.code, told.message) else "",
    )


_CODES: Final = {412: "append_condition_failed", 416: "beyond_the_tail"}
"""Names of answers that have no code in every dialect."""


def _message(status: int, told: _ErrorBody) -> str:
    if told.seq_num_mismatch is not None:
        return f"the next record gets the number {told.seq_num_mismatch}, not the one asked for"
    if told.fencing_token_mismatch is not None:
        return f"the fencing token of the stream is {quoted(told.fencing_token_mismatch)}"
    if status == 416:
        return "the start is at the tail or behind it: there is nothing to be read"
    return told.message or "without a reason"


def lost(url: str, cause: ConnectionLostError) -> ClientError:
    """Return what a connection's end means for the person who asked."""
    fault = cause.__cause__
    if isinstance(fault, ssl.SSLCertVerificationError):
        reason = fault.verify_message or "it cannot be verified"
        return UntrustedError(
            f"the certificate of {url} is not trusted ({reason}): name the CA that issued it with "
            "--ca-file or in a profile; that of `svc-cluster local --tls` is DATA_DIR/ca/ca.pem"
        )
    if isinstance(fault, ssl.SSLError):
        return UntrustedError(
            f"{url} does not speak TLS ({fault.reason or 'no handshake'}): use http:// where the "
            "server has no certificate"
        )
    if not cause.sent:
        return AwayError(
            f"{url} does not answer ({_shortly(cause)}): see that the server runs, or name another "
            "with --url, in a profile or as S2_ACCOUNT_ENDPOINT",
            sent=False,
        )
    return AwayError(
        f"{url} went away before it had answered ({_shortly(cause)}): try again; a server that "
        "wants TLS is asked by https://",
        sent=True,
    )


def _shortly(cause: ConnectionLostError) -> str:
    fault = cause.__cause__
    if isinstance(fault, OSError) and fault.errno:
        # numbers below 0 are the resolver's, which has words of its own for them
        return os.strerror(fault.errno) if fault.errno > 0 else str(fault.strerror)
    text = str(cause).removeprefix("cannot connect: ").removeprefix("connection lost: ")
    return " ".join(text.split()) or "no reason"
