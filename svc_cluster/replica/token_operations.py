"""Access tokens on the catalog's leader: issuing, revoking, and the gateways' freshness leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from svc_cluster._pb.cluster.v1 import access_pb2
from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.clock import Clock
from svc_cluster.base.errors import (
    AlreadyExistsError,
    DeadlineError,
    ErrorCode,
    MalformedError,
    PermissionDeniedError,
    QuotaError,
    TokenNotFoundError,
    UnauthenticatedError,
)
from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.telling import quoted
from svc_cluster.catalog.catalog_commands import CatalogCommand
from svc_cluster.catalog.leases import GATEWAY_ID_CHARACTERS_MAX, HandedLeases
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.catalog.token_table import TOKENS_MAX, TokenChange, TokenTable
from svc_cluster.codec import access_pb, lease_hand_over
from svc_cluster.model.access import Op
from svc_cluster.model.access_token import (
    NO_PARENT,
    ROOT_TOKEN_ID,
    AccessToken,
    AskedBy,
    AuthenticationOff,
    TokenRequest,
    derive,
)
from svc_cluster.model.provision import Provision
from svc_cluster.replica.catalog import CatalogReplica
from svc_cluster.replica.page_limit import check_page
from svc_cluster.replica.repeatable import Fill, Operation, say_done
from svc_cluster.replica.service_session import Encoded

PAGE_TOKENS: Final = 500
"""Tokens in one answer to a gateway; one has at most about 1 KiB."""

LEASES_PER_TURN: Final = 1000
"""Leases written before others have the event loop."""


class TokenOperations:
    """The operations of a node that concern access tokens. All but the lookups are the catalog
    leader's to answer."""

    def __init__(self, catalog: Callable[[pb.Request], CatalogReplica], clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self.operations: dict[str, Operation] = {
            "renew_lease": self._renew_lease,
            "issue_token": self._issue_token,
            "revoke_token": self._revoke_token,
            "list_tokens": self._list_tokens,
            "set_root_token": self._set_root_token,
            "hand_on_leases": self._hand_on_leases,
        }

    # -- leases

    async def _renew_lease(self, request: pb.Request) -> Fill:
        """What the gateway lacks; a lease too, once it lacks nothing. Only after a quorum has
        confirmed that no other leader can have revoked anything since the gateway asked."""
        wanted = request.renew_lease
        if len(wanted.gateway_id) > GATEWAY_ID_CHARACTERS_MAX:
            raise MalformedError(ErrorCode.BAD_PROTO, "a gateway's id is shorter")
        catalog = self._catalog(request)
        newest = catalog.newest_of_gateway(wanted.version_newest)
        await catalog.linearize()
        if not catalog.group.is_serving:
            raise catalog.group.not_leader()
        table = catalog.state.tokens
        now = self._clock.monotonic()
        leases = catalog.leases
        leases.in_term(catalog.group.engine.term, now)
        if leases.confirm(wanted.gateway_id, wanted.version):
            catalog.lease_news.notify()
        if wanted.read_all:
            tokens = table.tokens_after(wanted.after_serial, PAGE_TOKENS)
            return _page_filler(table.version, tokens)
        found = table.changes_after(wanted.version)
        if found is None:
            return _behind_filler(table.version)
        changes, version = _cut(found, table.version)
        granted = version == table.version
        granted = granted and leases.grant(wanted.gateway_id, wanted.version, now, newest)
        return _changes_filler(version, changes, granted=granted, gateways=leases.count(now))

    async def _hand_on_leases(self, request: pb.Request) -> Fill:
        """The successor asks what leases there are. Whoever does not know says so."""
        catalog = self._catalog(request)
        term = request.hand_on_leases.term
        own_term = catalog.group.engine.term
        handed = None
        if not request.hand_on_leases.taken:
            handed = catalog.leases.hand_on(term, own_term, self._clock.monotonic())
        elif catalog.leases.handed_on(term):
            catalog.lease_news.notify()

        if handed is not None:
            return await _encoded(handed)
        return lambda response: response.handed_leases.SetInParent()

    async def _settle(self, catalog: CatalogReplica, version: int, deadline: float) -> None:
        """Wait until no gateway goes by tokens from before `version`. Raises DeadlineError."""
        while True:
            if not catalog.group.is_serving:
                raise DeadlineError("the catalog's leader has changed; ask again")
            now = self._clock.monotonic()
            catalog.leases.in_term(catalog.group.engine.term, now)
            left = catalog.leases.seconds_until(version, now)
            if left <= 0:
                return
            if now >= deadline:
                raise DeadlineError("some gateway may still accept the token for a moment")
            news = catalog.lease_news.event
            try:
                async with asyncio.timeout(min(left, deadline - now) + 0.001):
                    await news.wait()
            except TimeoutError:
                continue

    # -- changes

    async def _issue_token(self, request: pb.Request) -> Fill:
        message = request.issue_token
        catalog = self._catalog(request)
        asked_by = asked_by_of(message)
        wanted = _token(message.token)
        if not wanted.secret_hash:
            raise MalformedError(ErrorCode.BAD_PROTO, "a token has a hash")
        asked = TokenRequest(
            wanted.token_id, wanted.scope, wanted.auto_prefix_streams, wanted.expires_at
        )

        def sequence(now_ms: TimestampMs) -> IssueToken:
            table = catalog.state.tokens
            caller = caller_of(table, asked_by, now_ms)
            token = derive(asked, caller, now_ms)
            # what is dropped is gone for everybody: not by a clock that the group does not trust
            trusted_ms = catalog.retention_clock.wall_ms() or TimestampMs(0)
            known = table.by_id(token.token_id)
            if known is not None and not known.is_expired(trusted_ms):
                raise AlreadyExistsError("an access token of this id exists")
            if table.has_secret(wanted.secret_hash, trusted_ms):
                raise AlreadyExistsError("another access token has this secret")
            most = min(TOKENS_MAX, catalog.quotas.tokens or TOKENS_MAX)
            if len(table) - len(table.expired(trusted_ms)) >= most:
                raise QuotaError(f"there are {most} access tokens already")
            most_of_chain = catalog.quotas.chain_tokens
            first = NO_PARENT if caller is None else table.chain_of(caller.serial)
            if most_of_chain is not None and first != NO_PARENT:
                chain = table.chain(first).difference(table.expired(trusted_ms))
                if len(chain) >= most_of_chain:
                    raise QuotaError(f"the chain of the token has {most_of_chain} already")
            return IssueToken(replace(token, secret_hash=wanted.secret_hash), trusted_ms)

        def check(now_ms: TimestampMs) -> None:
            caller_of(catalog.state.tokens, asked_by, now_ms)

        def fill(response: pb.Response) -> None:
            response.issued_token.sealed_secret = message.sealed_secret

        return await catalog.write(
            request.request_key, sequence, lambda _: fill, self._deadline(request), check=check
        )

    async def _revoke_token(self, request: pb.Request) -> Fill:
        message = request.revoke_token
        catalog = self._catalog(request)
        asked_by = asked_by_of(message)
        deadline = self._deadline(request)
        gone: set[int] = set()

        def check(now_ms: TimestampMs) -> None:
            if asked_by in gone:
                return  # whoever asks came from that token, and may have asked before it went
            caller = caller_of(catalog.state.tokens, asked_by, now_ms)
            if caller is not None and not caller.grant.allows(
                (Op.REVOKE_ACCESS_TOKEN,), token_id=message.token_id
            ):
                raise PermissionDeniedError(
                    "the access token does not allow `revoke-access-token` on the access token "
                    + quoted(message.token_id)
                )

        def sequence(now_ms: TimestampMs) -> RevokeToken:
            token = catalog.state.tokens.by_id(message.token_id)
            if token is None or token.is_expired(now_ms):
                raise TokenNotFoundError("no access token of this id")
            if token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT:
                raise PermissionDeniedError("the root token is replaced, not revoked")
            return RevokeToken(token.serial)

        catalog.revocations += 1
        try:
            await self._revoke_last(catalog, message.token_id, check, gone, deadline)
            return await self._revoke(catalog, request.request_key, sequence, check, deadline)
        finally:
            catalog.revocations -= 1
            catalog.lease_news.notify()

    async def _revoke(
        self,
        catalog: CatalogReplica,
        key: bytes,
        sequence: Callable[[TimestampMs], RevokeToken],
        check: Callable[[TimestampMs], None],
        deadline: float,
    ) -> Fill:
        """Returns once no gateway accepts the token any more."""
        unknown: TokenNotFoundError | None = None
        fill: Fill = say_done
        try:
            fill = await catalog.write(key, sequence, lambda _: say_done, deadline, check=check)
        except TokenNotFoundError as refusal:
            # perhaps revoked by an attempt whose answer was lost: what that one waited for holds
            # for this answer too
            unknown = refusal
        await self._settle(catalog, catalog.state.tokens.version, deadline)
        if unknown is not None:
            raise unknown
        return fill

    async def _revoke_last(
        self,
        catalog: CatalogReplica,
        token_id: str,
        check: Callable[[TimestampMs], None],
        gone: set[int],
        deadline: float,
    ) -> None:
        """Revoke those that came last of the very many tokens that came from this one. That goes on
        until what is left can go with it; `gone` gets their serials. Raises what `check`
        raises."""
        table = catalog.state.tokens
        while True:
            token = table.by_id(token_id)
            if token is None or (token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT):
                return
            serials = table.to_revoke_before(token.serial)
            if not serials:
                return
            await catalog.linearize()
            check(self._clock.wall_ms())
            gone.update(serials)
            await catalog.change_together([RevokeToken(each) for each in serials], deadline)

    async def _set_root_token(self, request: pb.Request) -> Fill:
        message = request.set_root_token
        catalog = self._catalog(request)
        command = SetRootToken(message.secret_hash, message.change_id, message.only_if_absent)
        outcome = Provision.CREATED

        def sequence(now_ms: TimestampMs) -> CatalogCommand | None:
            nonlocal outcome
            tokens = catalog.state.tokens
            if command.change_id in tokens.root_changes:
                # by an attempt whose answer was lost, or of an earlier life of the node
                outcome = Provision.UPDATED
            elif tokens.by_id(ROOT_TOKEN_ID) is not None and command.only_if_absent:
                outcome = Provision.NOOP
            else:
                outcome = Provision.CREATED
                return command
            return None

        await catalog.change(sequence, self._deadline(request))

        def fill(response: pb.Response) -> None:
            response.provision = outcome
            say_done(response)

        return fill

    async def _list_tokens(self, request: pb.Request) -> Fill:
        wanted = request.list_tokens
        limit = check_page(wanted.limit)
        catalog = self._catalog(request)
        await catalog.linearize()
        tokens, has_more = catalog.state.tokens.page(
            wanted.prefix, wanted.start_after, limit, self._clock.wall_ms()
        )

        def fill(response: pb.Response) -> None:
            response.tokens.SetInParent()
            response.tokens.has_more = has_more
            for token in tokens:
                # a list is for people: the hashes stay where they are needed
                access_pb.put_token(response.tokens.tokens.add(), token, with_hash=False)

        return fill

    def _deadline(self, request: pb.Request) -> float:
        return self._clock.monotonic() + request.deadline_ms / 1000


async def _encoded(handed: HandedLeases) -> Encoded:
    """Encode any number of leases, in steps; that it is told later makes no lease end too early."""
    parts: list[bytes] = []
    for first in range(0, max(len(handed.leases), 1), LEASES_PER_TURN):
        response = pb.Response()
        some = replace(handed, leases=handed.leases[first : first + LEASES_PER_TURN])
        lease_hand_over.put(response.handed_leases, some)
        parts.append(response.SerializeToString())
        await asyncio.sleep(0)
    return Encoded(b"".join(parts))


def asked_by_of(
    message: pb.IssueTokenRequest | pb.RevokeTokenRequest | pb.CreateBasinRequest,
) -> AskedBy:
    """Raises MalformedError for a request that does not say who asks: nobody has rights by
    leaving that out."""
    match message.WhichOneof("asked_by"):
        case "token_serial" if message.token_serial:
            return message.token_serial
        case "authentication_off":
            return AuthenticationOff.OFF
        case _:
            raise MalformedError(ErrorCode.BAD_PROTO, "the request does not say who asks")


def caller_of(table: TokenTable, asked_by: AskedBy, now_ms: TimestampMs) -> AccessToken | None:
    if asked_by is AuthenticationOff.OFF:
        return None
    caller = table.by_serial.get(asked_by)
    if caller is None or caller.is_expired(now_ms):
        raise UnauthenticatedError("the access token is not valid any more")
    return caller


def _token(message: access_pb2.AccessToken) -> AccessToken:
    try:
        return access_pb.get_token(message)
    except access_pb.AccessFormatError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, str(cause)) from cause


def _cut(found: Iterable[TokenChange], newest: int) -> tuple[list[TokenChange], int]:
    """Return as many changes as one answer holds, never half of a version, and how far they
    reach."""
    changes: list[TokenChange] = []
    for change in found:
        if len(changes) >= PAGE_TOKENS and change.version != changes[-1].version:
            return changes, changes[-1].version
        changes.append(change)
    return changes, newest


def _page_filler(version: int, tokens: list[AccessToken]) -> Fill:
    def fill(response: pb.Response) -> None:
        response.lease.version = version
        response.lease.all_read = len(tokens) < PAGE_TOKENS
        for token in tokens:
            _put_change(response.lease, token.serial, token)

    return fill


def _behind_filler(version: int) -> Fill:
    def fill(response: pb.Response) -> None:
        response.lease.version = version
        response.lease.behind = True

    return fill


def _changes_filler(
    version: int, changes: list[TokenChange], *, granted: bool, gateways: int
) -> Fill:
    def fill(response: pb.Response) -> None:
        response.lease.version = version
        response.lease.gateways = gateways
        response.lease.granted = granted
        for change in changes:
            _put_change(response.lease, change.serial, change.token)

    return fill


def _put_change(lease: pb.Lease, serial: int, token: AccessToken | None) -> None:
    out = lease.changes.add()
    out.serial = serial
    if token is not None:
        access_pb.put_token(out.token, token)
