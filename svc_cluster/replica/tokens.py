"""Access tokens on the catalog's leader: issuing, revoking, and the gateways' freshness leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, Final

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
from svc_cluster.catalog.commands import CatalogCommand
from svc_cluster.catalog.token_commands import IssueToken, RevokeToken, SetRootToken
from svc_cluster.catalog.tokens import TOKENS_MAX, Change, TokenTable
from svc_cluster.codec import access_pb
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

PAGE_TOKENS: Final = 500
"""Tokens in one answer to a gateway; one has at most about 1 KiB."""

Fill = Callable[[pb.Response], None]
Operation = Callable[[pb.Request], Coroutine[Any, Any, Fill]]


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
        }

    # -- leases

    async def _renew_lease(self, request: pb.Request) -> Fill:
        """What the gateway lacks; a lease too, once it lacks nothing. Only after a quorum has
        confirmed that no other leader can have revoked anything since the gateway asked."""
        wanted = request.renew_lease
        catalog = self._catalog(request)
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
        granted = version == table.version and leases.grant(wanted.gateway_id, wanted.version, now)
        return _changes_filler(version, changes, granted=granted, gateways=leases.count(now))

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

        def check(now_ms: TimestampMs) -> None:
            caller = caller_of(catalog.state.tokens, asked_by, now_ms)
            if caller is not None and not caller.grant.allows(
                (Op.REVOKE_ACCESS_TOKEN,), token_id=message.token_id
            ):
                raise PermissionDeniedError("the token may not revoke a token of this id")

        def sequence(now_ms: TimestampMs) -> RevokeToken:
            token = catalog.state.tokens.by_id(message.token_id)
            if token is None or token.is_expired(now_ms):
                raise TokenNotFoundError("no access token of this id")
            if token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT:
                raise PermissionDeniedError("the root token is replaced, not revoked")
            return RevokeToken(token.serial)

        unknown: TokenNotFoundError | None = None
        fill: Fill = _done
        try:
            fill = await catalog.write(
                request.request_key, sequence, lambda _: _done, deadline, check=check
            )
        except TokenNotFoundError as refusal:
            # perhaps revoked by an attempt whose answer was lost: what that one waited for holds
            # for this answer too
            unknown = refusal
        await self._settle(catalog, catalog.state.tokens.version, deadline)
        if unknown is not None:
            raise unknown
        return fill

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
            _done(response)

        return fill

    async def _list_tokens(self, request: pb.Request) -> Fill:
        wanted = request.list_tokens
        catalog = self._catalog(request)
        await catalog.linearize()
        tokens, has_more = catalog.state.tokens.page(
            wanted.prefix, wanted.start_after, wanted.limit, self._clock.wall_ms()
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


def _token(message: Any) -> AccessToken:
    try:
        return access_pb.get_token(message)
    except access_pb.AccessFormatError as cause:
        raise MalformedError(ErrorCode.BAD_PROTO, str(cause)) from cause


def _cut(found: Iterable[Change], newest: int) -> tuple[list[Change], int]:
    """As many changes as one answer holds, never half of a version; and how far they reach."""
    changes: list[Change] = []
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


def _changes_filler(version: int, changes: list[Change], *, granted: bool, gateways: int) -> Fill:
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


def _done(response: pb.Response) -> None:
    response.done.SetInParent()
