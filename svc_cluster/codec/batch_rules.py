"""The rules that one append obeys, and what is said of one that does not.

A limit says how many there may be and how many there were. Source: contract 2.5 to 2.8, section 7.

A record is named by its place in the batch, `records[0]` being the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svc_cluster.base.errors import InvalidError
from svc_cluster.base.limits import BATCH_METERED_BYTES_MAX, BATCH_RECORDS_MAX
from svc_cluster.base.telling import QUOTED_CHARACTERS_MAX, quoted
from svc_cluster.model import names
from svc_cluster.model.record import CommandKind, CommandRecord

RECORDS_MAX: Final = BATCH_RECORDS_MAX
METERED_BYTES_MAX: Final = BATCH_METERED_BYTES_MAX
U64_MAX: Final = 2**64 - 1

RECORD_COUNT_RULE: Final = f"a batch has 1 to {RECORDS_MAX} records"
METERED_BYTES_RULE: Final = f"a batch holds at most {METERED_BYTES_MAX} metered bytes"
FENCING_TOKEN_RULE: Final = f"a fencing token has at most {names.FENCING_TOKEN_BYTES_MAX} bytes"

EMPTY_NAME_RULE: Final = "a header name may be empty only as the one header of a command record"
_TRIM_BODY_BYTES: Final = 8


def bad_record_count(count: int) -> InvalidError:
    """For a batch with none or too many."""
    return InvalidError(f"{RECORD_COUNT_RULE}, this one has {count}")


def bad_metered_bytes(metered_bytes: int | None) -> InvalidError:
    """For a batch with too many; None: they were not counted to the end."""
    told = "more" if metered_bytes is None else metered_bytes
    return InvalidError(f"{METERED_BYTES_RULE}, this one has {told}")


def bad_fencing_token(token: str) -> InvalidError:
    """For a fencing token that is too long, or no UTF-8."""
    size = len(token.encode("utf-8", "surrogatepass"))
    return InvalidError(f"{FENCING_TOKEN_RULE}, this one has {size}")


def command_record(
    offset: int, headers: Sequence[tuple[bytes, bytes]], body: bytes
) -> CommandRecord:
    """What a record of which a header has an empty name commands. Raises InvalidError, which names
    the record by its offset in the batch."""
    if len(headers) != 1:
        raise bad_empty_name(offset)
    match headers[0][1]:
        case b"fence":
            try:
                token = body.decode()
            except UnicodeDecodeError:
                raise _in_record(offset, "a fencing token is UTF-8") from None
            if not names.is_fencing_token(token):
                raise _in_record(offset, f"{FENCING_TOKEN_RULE}, this one has {len(body)}")
            return CommandRecord(offset=offset, kind=CommandKind.FENCE, token=token)
        case b"trim":
            if len(body) != _TRIM_BODY_BYTES:
                raise _in_record(
                    offset,
                    "the body of a trim command is a big-endian 64-bit number, of 8 bytes, "
                    f"this one has {len(body)}",
                )
            trim_point = int.from_bytes(body, "big")
            return CommandRecord(offset=offset, kind=CommandKind.TRIM, trim_point=trim_point)
        case word:
            told = quoted(word[: QUOTED_CHARACTERS_MAX + 1].decode("utf-8", "replace"))
            raise _in_record(offset, f"a command record is `fence` or `trim`, not {told}")


def bad_empty_name(offset: int) -> InvalidError:
    """For a record of which a header has an empty name beside others."""
    return _in_record(offset, EMPTY_NAME_RULE)


def _in_record(offset: int, message: str) -> InvalidError:
    return InvalidError(f"records[{offset}]: {message}")
