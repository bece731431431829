"""What a request over a link may end with before it is answered."""

from __future__ import annotations


class LinkLostError(ConnectionError):
    """The connection ended before the answer came. `sent` is False when the request never left:
    then it had no effect; otherwise nobody here knows."""

    def __init__(self, *, sent: bool, message: str = "the connection to the node is lost") -> None:
        super().__init__(message)
        self.sent = sent


class LinkBusyError(LinkLostError):
    """The other side has not dealt with what it was asked before: nothing was sent, and the
    connection is well."""

    def __init__(self) -> None:
        super().__init__(sent=False, message="the node has too much to deal with")
