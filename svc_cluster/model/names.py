"""The rules for names, in UTF-8 bytes. Source: contract 2.1, 2.2, 2.8 and 2.11.

Names of streams and ids of access tokens hold no NUL (U+0000): one such name makes a listing
unreadable to widely used clients. Some may have been made before that was a rule; they can be
read, listed and deleted, and the functions for `stored` names are for those.
"""

from __future__ import annotations

import re
from typing import Final

_BASIN: Final = re.compile(r"[a-z0-9][a-z0-9-]{6,46}[a-z0-9]")
_BASIN_PREFIX: Final = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,47})?")

NUL: Final = "\0"
STREAM_NAME_BYTES_MAX: Final = 512
FENCING_TOKEN_BYTES_MAX: Final = 36
REQUEST_TOKEN_BYTES_MAX: Final = 36
TOKEN_ID_BYTES_MAX: Final = 96

BASIN_NAME_RULE: Final = (
    "a basin name has 8 to 48 characters of a-z, 0-9 and hyphen, no hyphen first or last"
)
STREAM_NAME_RULE: Final = (
    "a stream name has 1 to 512 bytes of UTF-8 without NUL and is not `.` or `..`"
)
TOKEN_ID_RULE: Final = "a token id has 1 to 96 bytes of UTF-8 without NUL and is not `.` or `..`"


def is_basin_name(name: str) -> bool:
    """8 to 48 of `[a-z0-9-]`, first and last not a hyphen."""
    return _BASIN.fullmatch(name) is not None


def is_basin_prefix(prefix: str) -> bool:
    """Empty, or the beginning of some basin name; a trailing hyphen is allowed."""
    return _BASIN_PREFIX.fullmatch(prefix) is not None


def is_stream_name(name: str) -> bool:
    """1 to 512 bytes of UTF-8 without NUL, not `.` or `..`; lone surrogates are not UTF-8."""
    return NUL not in name and is_stored_stream_name(name)


def is_stored_stream_name(name: str) -> bool:
    """Tells what `is_stream_name` tells, with NUL allowed too: a stream that exists may have such a
    name."""
    return name not in (".", "..") and 1 <= _utf8_len(name) <= STREAM_NAME_BYTES_MAX


def is_stream_prefix(prefix: str) -> bool:
    """0 to 512 bytes without NUL; `.` and `..` are fine here."""
    return NUL not in prefix and 0 <= _utf8_len(prefix) <= STREAM_NAME_BYTES_MAX


def is_fencing_token(token: str) -> bool:
    """0 to 36 bytes."""
    return 0 <= _utf8_len(token) <= FENCING_TOKEN_BYTES_MAX


def is_token_id(token_id: str) -> bool:
    """1 to 96 bytes of UTF-8 without NUL, not `.` or `..`."""
    return NUL not in token_id and is_stored_token_id(token_id)


def is_stored_token_id(token_id: str) -> bool:
    """Tells what `is_token_id` tells, with NUL allowed too: a token that exists may have such an
    id."""
    return token_id not in (".", "..") and 1 <= _utf8_len(token_id) <= TOKEN_ID_BYTES_MAX


def is_token_id_prefix(prefix: str) -> bool:
    """0 to 96 bytes without NUL."""
    return NUL not in prefix and 0 <= _utf8_len(prefix) <= TOKEN_ID_BYTES_MAX


def not_a_basin_name(name: str) -> str:
    """Return what is to be said of a name that `is_basin_name` refuses."""
    return f"{BASIN_NAME_RULE}; this one has {_size(name)}"


def not_a_stream_name(name: str) -> str:
    """Return what is to be said of a name that `is_stream_name` refuses."""
    return f"{STREAM_NAME_RULE}; this one has {_size(name)}"


def not_a_token_id(token_id: str) -> str:
    """Return what is to be said of an id that `is_token_id` refuses."""
    return f"{TOKEN_ID_RULE}; this one has {_size(token_id)}"


def not_a_prefix(name: str, prefix: str, bytes_max: int) -> str:
    """Return what is to be said of the prefix in the parameter `name`, which is too long or has
    NUL."""
    return f"{name} has at most {bytes_max} bytes, and no NUL; this one has {_size(prefix)}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _utf8_len(text: str) -> int:
    """Length in UTF-8, or -1 when the text has a lone surrogate."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return -1
