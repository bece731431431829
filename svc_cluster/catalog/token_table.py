"""The access tokens as applied: small enough to be held in memory whole, by gateways too.

Pure. Every change gets the next version; gateways learn the changes behind the version they have.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Final

import msgspec

from svc_cluster.base.ids import TimestampMs
from svc_cluster.base.key_reader import KeyReader
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.token_commands import (
    IssueToken,
    RevokeToken,
    SetRootToken,
    TokenCommand,
)
from svc_cluster.catalog.token_row import token_from_bytes, token_to_bytes
from svc_cluster.model.access_token import NO_PARENT, ROOT_TOKEN_ID, AccessToken, root_token

TOKENS_MAX: Final = 20_000
CHANGES_KEPT: Final = 10_000
"""A gateway that is further behind gets the whole table."""
EXPIRED_DROPPED_MAX: Final = 100
REVOKED_AT_ONCE_MAX: Final = 500
"""Tokens that one log entry revokes: of more, those that came last go in entries before."""
_ROOT_CHANGES_KEPT: Final = 16
_HIDDEN_SINGLY_MAX: Final = 32
"""More are taken out in one walk over all."""

META: Final = b"\x20"
TOKEN: Final = b"\x21"
_TOKEN_END: Final = b"\x22"
_U64: Final = struct.Struct(">Q")


class _TokenMeta(msgspec.Struct, array_like=True):
    next_serial: int = NO_PARENT + 1
    version: int = 0
    root_changes: list[bytes] = []


def canonical_meta(value: bytes) -> bytes:
    """The row under `META` in the form of this release. Raises msgspec.DecodeError."""
    return msgspec.msgpack.encode(msgspec.msgpack.decode(value, type=_TokenMeta))


def canonical_token(value: bytes) -> bytes:
    """Return a token's row in the form of this release. Raises msgspec.DecodeError."""
    return token_to_bytes(token_from_bytes(value))


def _is_root(token: AccessToken) -> bool:
    return token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT


@dataclass(frozen=True, slots=True)
class TokenChange:
    """A Change says what became of one token at `version`, which is `token`, or that it is gone
    (None)."""

    version: int
    serial: int
    token: AccessToken | None


@dataclass(slots=True)
class TokenPlan:
    """What the commands of one log entry do to the tokens, on top of the table."""

    meta: _TokenMeta | None = None
    changed: dict[int, AccessToken | None] = field(default_factory=dict)


class TokenTable:
    """Tokens by serial and by id, as of `version`."""

    def __init__(self, reader: KeyReader) -> None:
        raw = reader.get(META)
        self._meta = (
            msgspec.msgpack.decode(raw, type=_TokenMeta) if raw is not None else _TokenMeta()
        )
        self.by_serial: dict[int, AccessToken] = {}
        self._by_id: dict[str, int] = {}
        self._ids: list[bytes] = []
        """The ids of all but the hidden ones, in order."""
        self._expiring: list[tuple[int, int]] = []
        """Expiry (Unix nanoseconds) and serial of all that have one, in order."""
        self._hidden = 0
        """So many of these, from the front, were over when a page was read last: they are in no
        page, so that what has expired costs none of them anything."""
        self._children: dict[int, set[int]] = {}
        for _, value in reader.scan(TOKEN, _TOKEN_END):
            self._put(token_from_bytes(value))
        self._changes: deque[TokenChange] = deque(maxlen=CHANGES_KEPT)
        self._changes_begin = self._meta.version
        """The changes behind this version are all in `_changes`."""

    @property
    def version(self) -> int:
        return self._meta.version

    @property
    def root_changes(self) -> list[bytes]:
        """Ids of the last changes of the root token."""
        return self._meta.root_changes

    def __len__(self) -> int:
        return len(self.by_serial)

    def by_id(self, token_id: str) -> AccessToken | None:
        serial = self._by_id.get(token_id)
        return None if serial is None else self.by_serial[serial]

    def has_secret(self, secret_hash: bytes, now_ms: TimestampMs) -> bool:
        """Whether a token that has not expired has a secret with this hash. It looks through all
        there are. Apply does not ask: what older releases have put into the log stays right."""
        return any(
            token.secret_hash == secret_hash and not token.is_expired(now_ms)
            for token in self.by_serial.values()
        )

    def chain_of(self, serial: int) -> int:
        """Serial of the first token of the chain that this one is of, below the root's; 0 for the
        root token. Whoever has a token can issue others with it, which would otherwise each bring
        quotas of their own."""
        token = self.by_serial[serial]
        if _is_root(token):
            return NO_PARENT
        while True:
            parent = self.by_serial.get(token.parent)
            if parent is None or _is_root(parent):
                return token.serial
            token = parent

    def chain(self, first: int) -> set[int]:
        """Serials of a chain: its first token and all that came from it."""
        found: set[int] = set()
        waiting = [first]
        while waiting:
            serial = waiting.pop()
            found.add(serial)
            waiting += self._children.get(serial, ())
        return found

    def to_revoke_before(self, serial: int) -> list[int]:
        """Return serials to be revoked in an entry of their own, in this order, before this token
        is. Each is then the last of what came from it. Empty when the token can go with all that is
        left."""
        order = [serial]
        for each in order:  # parents before children
            order += self._children.get(each, ())
        if len(order) <= REVOKED_AT_ONCE_MAX:
            return []
        return order[: -REVOKED_AT_ONCE_MAX - 1 : -1]

    def page(
        self, prefix: str, start_after: str, limit: int, now_ms: TimestampMs
    ) -> tuple[list[AccessToken], bool]:
        """Ids in byte order, `start_after` exclusive, without the expired; and whether there are
        more. Costs what the page holds, however many tokens there are."""
        self._hide_until(now_ms)
        wanted = prefix.encode()
        place = bisect_left(self._ids, wanted)
        if start_after:
            place = max(place, bisect_right(self._ids, start_after.encode()))
        out: list[AccessToken] = []
        while place < len(self._ids) and self._ids[place].startswith(wanted):
            if len(out) == limit:
                return out, True
            out.append(self.by_serial[self._by_id[self._ids[place].decode()]])
            place += 1
        return out, False

    def _hide_until(self, now_ms: TimestampMs) -> None:
        """Take out of the pages what has expired, and put back what has not, where the clock went
        backwards. Each token is moved once for each time that it expires."""
        over = self._count_expired(now_ms)
        moved = self._expiring[min(over, self._hidden) : max(over, self._hidden)]
        if not moved:
            return
        ids = {self.by_serial[serial].token_id.encode() for _, serial in moved}
        if over < self._hidden:
            self._ids = sorted([*self._ids, *ids])
        elif len(ids) <= _HIDDEN_SINGLY_MAX:
            for each in ids:
                del self._ids[bisect_left(self._ids, each)]
        else:
            self._ids = [each for each in self._ids if each not in ids]
        self._hidden = over

    def _count_expired(self, now_ms: TimestampMs) -> int:
        """How many of `_expiring` are over."""
        return bisect_left(self._expiring, (now_ms * 1_000_000 + 1, 0))

    # -- what gateways are told

    def changes_after(self, version: int) -> Iterator[TokenChange] | None:
        """In order; None when they are not kept any more, or the version is not one of ours."""
        if not self._changes_begin <= version <= self.version:
            return None
        return (change for change in self._changes if change.version > version)

    def tokens_after(self, serial: int, limit: int) -> list[AccessToken]:
        """By serial, for whoever needs them all."""
        return [self.by_serial[s] for s in sorted(s for s in self.by_serial if s > serial)[:limit]]

    # -- apply

    def decide(self, plan: TokenPlan, write_set: WriteSet, command: TokenCommand) -> str | None:
        """Add to the plan what the command does; a reason when it does nothing. Never raises."""
        before = dict(plan.changed)
        meta = plan.meta or _TokenMeta(
            self._meta.next_serial, self._meta.version, list(self._meta.root_changes)
        )
        refusal = self._change(plan, meta, command)
        if refusal is not None:
            assert plan.changed == before, "a refused command has no effect"
            return refusal
        meta.version += 1
        plan.meta = meta
        for serial, token in plan.changed.items():
            if serial in before and before[serial] is token:
                continue
            key = TOKEN + _U64.pack(serial)
            if token is None:
                write_set.delete(key)
            else:
                write_set.put(key, token_to_bytes(token))
        write_set.put(META, msgspec.msgpack.encode(meta))
        return None

    def _change(self, plan: TokenPlan, meta: _TokenMeta, command: TokenCommand) -> str | None:
        match command:
            case IssueToken():
                return self._issue(plan, meta, command)
            case RevokeToken(serial):
                return self._revoke(plan, serial)
            case SetRootToken():
                return self._set_root(plan, meta, command)

    def _issue(self, plan: TokenPlan, meta: _TokenMeta, command: IssueToken) -> str | None:
        token = command.token
        if token.parent != NO_PARENT and self._get(plan, token.parent) is None:
            return "the token that issues it is gone"
        expired = self.expired(command.issued_at_ms)
        if token.parent in expired:
            return "the token that issues it is over"
        known = self._find(plan, token.token_id)
        if known is not None and known.serial not in expired:
            return "an access token of this id exists"
        if len(self.by_serial) - len(expired) >= TOKENS_MAX:
            return "there are too many access tokens"
        for serial in expired:
            plan.changed[serial] = None
        plan.changed[meta.next_serial] = replace(token, serial=meta.next_serial)
        meta.next_serial += 1
        return None

    def expired(self, now_ms: TimestampMs) -> list[int]:
        """Return serials of some tokens that are over, children before parents. A token never
        outlives its parent, so whatever comes from one of these is over too."""
        over = self._expiring[: self._count_expired(now_ms)]
        return nlargest(EXPIRED_DROPPED_MAX, (serial for _, serial in over))

    def _revoke(self, plan: TokenPlan, serial: int) -> str | None:
        token = self._get(plan, serial)
        if token is None:
            return "no such access token"
        if token.token_id == ROOT_TOKEN_ID and token.parent == NO_PARENT:
            return "the root token stays"
        new: dict[int, list[int]] = {}
        for token in plan.changed.values():
            if token is not None:
                new.setdefault(token.parent, []).append(token.serial)
        waiting = [serial]
        while waiting:
            gone = waiting.pop()
            plan.changed[gone] = None
            waiting += self._children.get(gone, ())
            waiting += new.get(gone, ())
        return None

    def _set_root(self, plan: TokenPlan, meta: _TokenMeta, command: SetRootToken) -> str | None:
        if command.change_id in meta.root_changes:
            return "this change has been made"
        known = self._find(plan, ROOT_TOKEN_ID)
        if known is not None and command.only_if_absent:
            return "there is a root token"
        if known is None:
            token = root_token(meta.next_serial, command.secret_hash)
            meta.next_serial += 1
        else:
            token = root_token(known.serial, command.secret_hash)
        meta.root_changes = [*meta.root_changes, command.change_id][-_ROOT_CHANGES_KEPT:]
        plan.changed[token.serial] = token
        return None

    def _get(self, plan: TokenPlan, serial: int) -> AccessToken | None:
        return plan.changed[serial] if serial in plan.changed else self.by_serial.get(serial)

    def _find(self, plan: TokenPlan, token_id: str) -> AccessToken | None:
        for token in plan.changed.values():
            if token is not None and token.token_id == token_id:
                return token
        known = self._by_id.get(token_id)
        return None if known is None else self._get(plan, known)

    def commit(self, plan: TokenPlan) -> None:
        """Take over what has been written to the store."""
        if plan.meta is None:
            return
        self._meta = plan.meta
        for serial, token in plan.changed.items():
            self._drop(serial)
            if token is not None:
                self._put(token)
            if len(self._changes) == CHANGES_KEPT:
                self._changes_begin = self._changes[0].version
            self._changes.append(TokenChange(self._meta.version, serial, token))

    def _put(self, token: AccessToken) -> None:
        self.by_serial[token.serial] = token
        self._by_id[token.token_id] = token.serial
        place = None
        if token.expires_at is not None:
            entry = (token.expires_at.unix_ns, token.serial)
            place = bisect_left(self._expiring, entry)
            self._expiring.insert(place, entry)
        if place is not None and place < self._hidden:
            self._hidden += 1
        else:
            insort(self._ids, token.token_id.encode())
        self._children.setdefault(token.parent, set()).add(token.serial)

    def _drop(self, serial: int) -> None:
        token = self.by_serial.pop(serial, None)
        if token is None:
            return
        del self._by_id[token.token_id]
        place = None
        if token.expires_at is not None:
            place = bisect_left(self._expiring, (token.expires_at.unix_ns, serial))
            del self._expiring[place]
        if place is not None and place < self._hidden:
            self._hidden -= 1
        else:
            del self._ids[bisect_left(self._ids, token.token_id.encode())]
        siblings = self._children[token.parent]
        siblings.discard(serial)
        if not siblings:
            del self._children[token.parent]
