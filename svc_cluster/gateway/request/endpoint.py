"""What is said of an endpoint, in one row of the table (gateway/endpoints).

The router, the authorization, the audit trail, the count of usage, the limits of rates and the
OpenAPI document all go by the row; nothing else knows one operation from another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from svc_cluster.base.errors import ErrorCode
from svc_cluster.http.message import Response
from svc_cluster.model import names
from svc_cluster.model.access import Op

Handler = Callable[[Any], Awaitable[Response]]
"""Given the `Call` (api/context.py), which stands above this."""

Schema = dict[str, Any]
"""A JSON schema, as OpenAPI 3.1 has it."""


class Names(Enum):
    """The names of a request that have to be within the token's sets."""

    NONE = "none"
    """None, or those that are listed: the page is cut to the set."""
    BASIN = "basin"
    STREAM = "stream"
    """The basin and, in it, the stream."""
    ACCOUNT = "account"
    """None, and what is done is done to all basins: only a token for all of them may."""
    TOKEN = "token"
    IN_BODY = "in body"
    """The handler checks it once it knows it (`require`). A basin beside it is checked here."""


@dataclass(frozen=True, slots=True)
class Need:
    """`all_of` are needed together, and one `any_of` where there are some."""

    names: Names
    all_of: tuple[Op, ...] = ()
    any_of: tuple[Op, ...] = ()
    basin_beside: bool = False

    @property
    def is_of_stream(self) -> bool:
        """The request is about a stream, in a basin that a header or the host may name."""
        return self.names is Names.STREAM or self.basin_beside


FREE = None
"""The need of what is answered without a token, without limit, and while the server stops."""


@dataclass(frozen=True, slots=True)
class Counted:
    """This tells as which operation a request counts that was not refused, of its basin, or of the
    account. `creating`: as which where the answer is 201."""

    op: Op
    in_basin: bool
    creating: Op | None = None


def of_account(op: Op, *, creating: Op | None = None) -> Counted:
    return Counted(op, in_basin=False, creating=creating)


def of_basin(op: Op, *, creating: Op | None = None) -> Counted:
    return Counted(op, in_basin=True, creating=creating)


class Moves(Enum):
    """What of a request is limited and counted beside the request itself."""

    NOTHING = "nothing"
    APPENDED = "appended"
    READ = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """`where` is `query` or `header`."""

    name: str
    where: str
    schema: Schema
    text: str
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What the OpenAPI document says of an endpoint, beyond its path and method."""

    summary: str
    status: int
    answer: dict[str, Schema]
    """Schemas of the success by media type; empty: no body."""
    body: dict[str, Schema] | None = None
    """Schemas of the request by media type."""
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[ErrorCode, ...] = ()
    """Beside those that any operation behind `/v1` may be refused with."""
    seed_errors: tuple[ErrorCode, ...] = ()
    """Those that the S2 dialect is never refused with."""
    answer_headers: tuple[str, ...] = ()
    further_status: int | None = None
    """Another success, with the same answer."""
    may_be_unmodified: bool = False
    """A client that has the answer already may be told so, without a body."""
    body_is_optional: bool = False
    plain_statuses: tuple[int, ...] = ()
    """Further statuses with a plain text body."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoint:
    """One row."""

    operation: str
    """Its name in the audit trail and in the OpenAPI document."""
    method: str
    """GET answers HEAD too."""
    paths: tuple[str, ...]
    """The first one is its own; at the others the same is done."""
    handler: Handler
    need: Need | None
    is_audited: bool = False
    is_merged: bool = False
    """Alike events of it are one line of the audit trail, and rationed: it changes nothing."""
    counted: Counted | None = None
    moves: Moves = Moves.NOTHING
    takes_stored_names: bool = False
    """Done, too, to a stream whose name has NUL, as it was made before that was refused."""
    is_page: bool = False
    """Its answers are the same bytes for everybody while the process lives. They are kept in each
    coding; and no prober asks for them, so that they are refused like other requests."""
    takes_ticket: bool = False
    """Done for whoever shows a read ticket in place of an access token."""
    description: Description

    def is_name_of_stream(self, name: str) -> bool:
        """Whether it takes a stream of this name."""
        if self.takes_stored_names:
            return names.is_stored_stream_name(name)
        return names.is_stream_name(name)
