"""What the gateway asks of the catalog about access tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from svc_cluster._pb.cluster.v1 import access_pb2 as access_message
from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import InternalError
from svc_cluster.codec import access_pb
from svc_cluster.gateway.cluster.leaders import Fill
from svc_cluster.model.access_token import AccessToken, AskedBy, AuthenticationOff, TokenRequest
from svc_cluster.model.versions import SPOKEN

DEADLINE_SECONDS: Final = 4.0
RENEWAL_SECONDS: Final = 2.5
"""The time for one renewal. It goes on asking until there is a leader: longer than an election
takes."""


@dataclass(frozen=True, slots=True)
class TokenNews:
    """An answer to a gateway that renews its lease; see `Lease` in replica.proto."""

    granted: bool
    version: int
    behind: bool
    changes: tuple[tuple[int, AccessToken | None], ...]
    all_read: bool
    gateways: int = 0
    """How many gateways hold a lease; 0: not known."""


class TokenBackend(Protocol):
    """All calls raise ServiceError subclasses and nothing else."""

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews: ...

    async def issue(
        self,
        request: TokenRequest,
        secret_hash: bytes,
        asked_by: AskedBy,
        *,
        key: bytes = b"",
        sealed_secret: bytes = b"",
    ) -> bytes | None:
        """With a `key` (codec/request_key.py) it may be repeated. Then no token is issued, and
        this is the `sealed_secret` that the first such request came with. None: one was issued.
        AlreadyExistsError, InvalidError, PermissionDeniedError, QuotaError,
        UnauthenticatedError."""
        ...

    async def revoke(self, token_id: str, asked_by: AskedBy, *, key: bytes = b"") -> None:
        """Returns once no gateway accepts the token any more. TokenNotFoundError,
        PermissionDeniedError, UnauthenticatedError."""
        ...

    async def page(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[AccessToken], bool]: ...


class Catalog(Protocol):
    """`gateway.cluster.directory.Directory`, as far as it is needed here."""

    async def ask_catalog(
        self, fill: Fill, *, write: bool, deadline: float, key: bytes = b""
    ) -> pb.Response: ...

    async def ask_catalog_any(self, fill: Fill, *, deadline: float) -> pb.Response: ...


class TokenClient:
    """A TokenBackend over the catalog's leader."""

    def __init__(self, catalog: Catalog, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock

    async def _ask(
        self, fill: Fill, *, write: bool, seconds: float = DEADLINE_SECONDS, key: bytes = b""
    ) -> pb.Response:
        deadline = self._clock.monotonic() + seconds
        return await self._catalog.ask_catalog(fill, write=write, deadline=deadline, key=key)

    async def renew(
        self, gateway_id: str, version: int, *, read_all: bool, after_serial: int
    ) -> TokenNews:
        def fill(request: pb.Request) -> None:
            out = request.renew_lease
            out.gateway_id = gateway_id
            out.version = version
            out.read_all = read_all
            out.after_serial = after_serial
            out.version_newest = SPOKEN.newest

        deadline = self._clock.monotonic() + RENEWAL_SECONDS
        lease = (await self._catalog.ask_catalog_any(fill, deadline=deadline)).lease
        return TokenNews(
            granted=lease.granted,
            version=lease.version,
            behind=lease.behind,
            changes=tuple(
                (change.serial, _token(change.token) if change.HasField("token") else None)
                for change in lease.changes
            ),
            all_read=lease.all_read,
            gateways=lease.gateways,
        )

    async def issue(
        self,
        request: TokenRequest,
        secret_hash: bytes,
        asked_by: AskedBy,
        *,
        key: bytes = b"",
        sealed_secret: bytes = b"",
    ) -> bytes | None:
        asked = AccessToken(
            serial=0,
            token_id=request.token_id,
            secret_hash=secret_hash,
            parent=0,
            scope=request.scope,
            auto_prefix_streams=request.auto_prefix_streams,
            expires_at=request.expires_at,
        )

        def fill(out: pb.Request) -> None:
            access_pb.put_token(out.issue_token.token, asked)
            put_asked_by(out.issue_token, asked_by)
            out.issue_token.sealed_secret = sealed_secret

        response = await self._ask(fill, write=True, key=key)
        return response.issued_token.sealed_secret if response.is_repeated else None

    async def revoke(self, token_id: str, asked_by: AskedBy, *, key: bytes = b"") -> None:
        def fill(request: pb.Request) -> None:
            request.revoke_token.token_id = token_id
            put_asked_by(request.revoke_token, asked_by)

        await self._ask(fill, write=True, key=key)

    async def page(
        self, prefix: str, start_after: str, limit: int
    ) -> tuple[list[AccessToken], bool]:
        def fill(request: pb.Request) -> None:
            request.list_tokens.prefix = prefix
            request.list_tokens.start_after = start_after
            request.list_tokens.limit = limit

        found = (await self._ask(fill, write=False)).tokens
        return [_token(message) for message in found.tokens], found.has_more


def put_asked_by(
    out: pb.IssueTokenRequest | pb.RevokeTokenRequest | pb.CreateBasinRequest, asked_by: AskedBy
) -> None:
    """Say who asks, which is never left out."""
    if asked_by is AuthenticationOff.OFF:
        out.authentication_off.SetInParent()
    else:
        assert asked_by > 0, "no token has the serial 0"
        out.token_serial = asked_by


def _token(message: access_message.AccessToken) -> AccessToken:
    try:
        return access_pb.get_token(message)
    except access_pb.AccessFormatError as cause:
        raise InternalError(str(cause)) from cause
