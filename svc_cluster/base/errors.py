"""Every refusal the service can answer: declared once, mapped to a status once (gateway/request).

The class says whether the write *may have happened*; that flag, not the code, decides whether a
blind retry can duplicate. Source: contract 3.1, 3.2 and 3.5.
"""

from __future__ import annotations

from enum import Enum


class ErrorCode(Enum):
    """Wire words, canonical for the S2 dialect."""

    ACCESS_TOKEN_NOT_FOUND = "access_token_not_found"
    AUTHN = "authn"
    BAD_FRAME = "bad_frame"
    BAD_HEADER = "bad_header"
    BAD_JSON = "bad_json"
    BAD_PATH = "bad_path"
    BAD_PROTO = "bad_proto"
    BAD_QUERY = "bad_query"
    BASIN_DELETION_PENDING = "basin_deletion_pending"
    BASIN_NOT_FOUND = "basin_not_found"
    DECRYPTION_FAILED = "decryption_failed"
    HOT_SERVER = "hot_server"
    INVALID = "invalid"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_FOUND = "not_found"
    NOT_IMPLEMENTED = "not_implemented"
    OTHER = "other"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    TARGET_TOO_LONG = "target_too_long"
    HEADERS_TOO_LARGE = "headers_too_large"
    PERMISSION_DENIED = "permission_denied"
    QUOTA_EXHAUSTED = "quota_exhausted"
    RATE_LIMITED = "rate_limited"
    REQUEST_TIMEOUT = "request_timeout"
    RESOURCE_ALREADY_EXISTS = "resource_already_exists"
    SERVER_DRAINING = "server_draining"
    STORAGE = "storage"
    STREAM_DELETION_PENDING = "stream_deletion_pending"
    STREAM_NOT_FOUND = "stream_not_found"
    TRANSACTION_CONFLICT = "transaction_conflict"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    APPEND_CONDITION_FAILED = "append_condition_failed"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"


class ServiceError(Exception):
    """Base of all answers that are not a success. Ordinary classes: a frozen dataclass cannot be
    raised through a context manager."""

    code = ErrorCode.OTHER
    may_have_taken_effect = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.code.value)
        self.message = message or self.code.value.replace("_", " ")


class InternalError(ServiceError):
    """A fault of ours; nothing is known about effects."""

    code = ErrorCode.OTHER
    may_have_taken_effect = True


class InvalidError(ServiceError):
    """Well-formed but against a rule of meaning (422, seed dialect 400)."""

    code = ErrorCode.INVALID


class MalformedError(ServiceError):
    """Not well-formed; `code` says which part: header, path, query, JSON or protobuf."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        super().__init__(message)


class UnauthenticatedError(ServiceError):
    """No access token, or one that is unknown, revoked or expired."""

    code = ErrorCode.AUTHN

    def __init__(self, message: str, *, may_have_taken_effect: bool = False) -> None:
        super().__init__(message)
        self.may_have_taken_effect = may_have_taken_effect


class TokenMissingError(UnauthenticatedError):
    """The request shows no access token at all."""


class PermissionDeniedError(ServiceError):
    """The access token is known and may not do this. Says nothing about what exists."""

    code = ErrorCode.PERMISSION_DENIED


class QuotaError(ServiceError):
    """There are as many of them as there may be: basins, streams of a basin, or access tokens."""

    code = ErrorCode.QUOTA_EXHAUSTED


class TokenNotFoundError(ServiceError):
    code = ErrorCode.ACCESS_TOKEN_NOT_FOUND


class KeyRequiredError(ServiceError):
    """The stream's records are encrypted, and the request has no key that could be one."""

    code = ErrorCode.BAD_HEADER

    @classmethod
    def of(cls, cipher: str) -> KeyRequiredError:
        return cls(
            f"the records of this stream are encrypted with {cipher}: send the key, base64 of "
            "exactly 32 bytes, as svc-encryption-key"
        )


class DecryptionFailedError(ServiceError):
    """A stored record cannot be opened with the key of the request."""

    code = ErrorCode.DECRYPTION_FAILED


class SealMismatchError(ServiceError):
    """The batch was sealed for another stream than the one that has the name. Without effect."""

    code = ErrorCode.UNAVAILABLE


class BasinNotFoundError(ServiceError):
    code = ErrorCode.BASIN_NOT_FOUND


class StreamNotFoundError(ServiceError):
    code = ErrorCode.STREAM_NOT_FOUND


class AlreadyExistsError(ServiceError):
    code = ErrorCode.RESOURCE_ALREADY_EXISTS


class BasinDeletionPendingError(ServiceError):
    code = ErrorCode.BASIN_DELETION_PENDING


class StreamDeletionPendingError(ServiceError):
    code = ErrorCode.STREAM_DELETION_PENDING


class TransactionConflictError(ServiceError):
    code = ErrorCode.TRANSACTION_CONFLICT


class UnavailableError(ServiceError):
    """Definitely without effect: no leader, or another term stands at the proposal's index."""

    code = ErrorCode.UNAVAILABLE


class HotServerError(ServiceError):
    """A bounded queue is full. Without effect."""

    code = ErrorCode.HOT_SERVER


class DrainingError(ServiceError):
    code = ErrorCode.SERVER_DRAINING


class RateLimitedError(ServiceError):
    """Too much at present; nothing was done. `retry_after_ms` from now it may be worth a try."""

    code = ErrorCode.RATE_LIMITED

    def __init__(self, message: str = "", retry_after_ms: int = 1000) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class NotImplementedYetError(ServiceError):
    code = ErrorCode.NOT_IMPLEMENTED


class DeadlineError(ServiceError):
    """Proposed and not known committed by the deadline: the entry may still commit."""

    code = ErrorCode.REQUEST_TIMEOUT
    may_have_taken_effect = True


class ReadDeadlineError(ServiceError):
    """A read that could not be answered in time; reads have no effects."""

    code = ErrorCode.REQUEST_TIMEOUT


class SeqNumMismatchError(ServiceError):
    """`match_seq_num` differs from the tail, which is reported."""

    code = ErrorCode.APPEND_CONDITION_FAILED

    def __init__(self, tail_seq_num: int) -> None:
        super().__init__(f"the next sequence number is {tail_seq_num}")
        self.tail_seq_num = tail_seq_num


class FencingTokenMismatchError(ServiceError):
    """The given fencing token is not the stream's current one, which is reported."""

    code = ErrorCode.APPEND_CONDITION_FAILED

    def __init__(self, current_token: str) -> None:
        super().__init__("another fencing token is set on the stream")
        self.current_token = current_token


class PastTailError(ServiceError):
    """A read starts behind the tail (or, in the S2 dialect, at it without waiting)."""

    code = ErrorCode.RANGE_NOT_SATISFIABLE

    def __init__(self, tail_seq_num: int, tail_timestamp_ms: int) -> None:
        super().__init__("the read starts beyond the tail of the stream")
        self.tail_seq_num = tail_seq_num
        self.tail_timestamp_ms = tail_timestamp_ms
