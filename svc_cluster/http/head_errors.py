"""What is wrong with a request whose head never became one, as errors of the service.

How such an error is told is not known here: the application makes the answer (`App.refuse`).
"""

from __future__ import annotations

from svc_cluster.base.errors import ErrorCode, ServiceError


class TargetTooLongError(ServiceError):
    """The request's target has more bytes than a line may have."""

    code = ErrorCode.TARGET_TOO_LONG


class HeadersTooLargeError(ServiceError):
    """A header is longer than a line may be, or there are too many of them, or too large ones."""

    code = ErrorCode.HEADERS_TOO_LARGE


class RequestBodyTimeoutError(ServiceError):
    """The client stopped sending its request; nothing was done with the part that came."""

    code = ErrorCode.REQUEST_TIMEOUT
