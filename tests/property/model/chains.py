"""Random chains of access tokens, each link judged by a set algebra of its own.

The oracle shares nothing with the model: it has its own copy of the table of groups, and a set of
names is for it the list of those names of a small universe that are in it. `python -m
tests.property.model.chains 1000000 [SEED]` runs as many chains as it is told.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from svc_cluster.base.errors import InvalidError, PermissionDeniedError
from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.access import NameSet, Op, OpGroups, ReadWrite, Scope
from svc_cluster.model.access_token import (
    AccessToken,
    Expiry,
    TokenRequest,
    derive,
    root_token,
)

DEPTH_MAX = 5
NOW_MS = TimestampMs(1_000)

TABLE = {
    "account": (
        "list-basins get-basin-config list-access-tokens account-metrics list-locations "
        "get-default-location",
        "issue-access-token revoke-access-token create-basin delete-basin reconfigure-basin "
        "set-default-location",
    ),
    "basin": (
        "get-basin-config list-streams basin-metrics",
        "create-basin delete-basin reconfigure-basin",
    ),
    "stream": (
        "list-streams get-stream-config check-tail read stream-metrics",
        "create-stream delete-stream reconfigure-stream append trim fence",
    ),
}
"""Read and write operations of each group, as the interface says."""

NAME_LENGTH_MAX = 6
UNIVERSE = [
    "".join(letters)
    for length in range(1, NAME_LENGTH_MAX + 1)
    for letters in product("a/", repeat=length)
]
_DECIDABLE_LENGTH_MAX = NAME_LENGTH_MAX - 2
"""Longer values hold so little of the universe that it cannot tell them apart."""

_VALUES = ("", "", "a", "a", "/", "aa", "a/", "/a")
_OPS = tuple(Op)


@dataclass
class Holder:
    """What the oracle knows of a token: what it may say, and what that means."""

    ops: frozenset[str]
    basins: frozenset[str]
    streams: frozenset[str]
    tokens: frozenset[str]
    names_begin_with: str
    expires_ns: int | None


@cache
def members(value: str, is_prefix: bool) -> frozenset[str]:
    if not is_prefix:
        return frozenset(name for name in UNIVERSE if name == value)
    return frozenset(name for name in UNIVERSE if name[: len(value)] == value)


def _members(names: NameSet | None, put_in_front: str = "") -> frozenset[str]:
    if names is None or (names.value == "" and not names.is_prefix):
        return frozenset()
    return members(put_in_front + names.value, names.is_prefix)


def expanded(scope: Scope) -> frozenset[str]:
    words = {op.value for op in scope.ops}
    for group, (read, write) in TABLE.items():
        granted: ReadWrite = getattr(scope.op_groups, group)
        words |= set(read.split()) if granted.read else set()
        words |= set(write.split()) if granted.write else set()
    return frozenset(words)


def root_holder() -> Holder:
    everything = frozenset(UNIVERSE)
    all_words = frozenset(" ".join(r + " " + w for r, w in TABLE.values()).split())
    return Holder(all_words, everything, everything, everything, "", None)


def random_request(rng: random.Random, token_id: str, by: AccessToken) -> TokenRequest:
    """Most often near to what `by` may give, so that chains get long; else anything at all."""
    daring = rng.choice((0.0, 0.02, 0.5))

    def names(own: NameSet | None, put_in_front: str = "") -> NameSet | None:
        if own is None or rng.random() < daring:
            return rng.choice((None, NameSet(rng.choice(_VALUES), rng.random() < 0.8)))
        value = own.value.removeprefix(put_in_front)
        if not own.is_prefix:
            return NameSet(value, is_prefix=False)
        if len(value) < 2 and rng.random() < 0.3:
            value += rng.choice("a/")
        return NameSet(value, rng.random() < 0.97)

    def halves(own: ReadWrite) -> ReadWrite:
        return ReadWrite(
            rng.random() < 0.9 if own.read else rng.random() < daring,
            rng.random() < 0.9 if own.write else rng.random() < daring,
        )

    expiry = rng.choice((None, None, None, 2_000, rng.choice((500, 3_000, 4_000))))
    groups = by.scope.op_groups
    ops = (Op.ISSUE_ACCESS_TOKEN, *(rng.sample(_OPS, 3) if rng.random() < daring else ()))
    scope = Scope(
        basins=names(by.scope.basins),
        streams=names(by.scope.streams, by.name_prefix),
        access_tokens=names(by.scope.access_tokens),
        op_groups=OpGroups(halves(groups.account), halves(groups.basin), halves(groups.stream)),
        ops=ops if rng.random() < 0.97 else (),
    )
    return TokenRequest(
        token_id,
        scope,
        auto_prefix_streams=rng.random() < 0.3,
        expires_at=None if expiry is None else Expiry(str(expiry), expiry * 1_000_000),
    )


def child_of(holder: Holder, request: TokenRequest) -> Holder | None:
    """What the request means in the hands of `holder`; None: it is to be refused."""
    scope = request.scope
    front = holder.names_begin_with
    expires = holder.expires_ns if request.expires_at is None else request.expires_at.unix_ns
    child = Holder(
        expanded(scope),
        _members(scope.basins),
        _members(scope.streams, front),
        _members(scope.access_tokens),
        front,
        expires,
    )
    if request.auto_prefix_streams:
        if scope.streams is None or not scope.streams.is_prefix:
            return None
        child.names_begin_with = front + scope.streams.value
    allowed = (
        child.ops
        and "issue-access-token" in holder.ops
        and request.token_id in holder.tokens
        and child.ops <= holder.ops
        and child.basins <= holder.basins
        and child.streams <= holder.streams
        and child.tokens <= holder.tokens
        and (request.expires_at is None or request.expires_at.unix_ns > NOW_MS * 1_000_000)
        and (holder.expires_ns is None or (expires is not None and expires <= holder.expires_ns))
    )
    return child if allowed else None


def _is_decidable(request: TokenRequest, holder: Holder) -> bool:
    streams = request.scope.streams
    length = len(holder.names_begin_with) + (0 if streams is None else len(streams.value))
    return length <= _DECIDABLE_LENGTH_MAX


@dataclass
class Counts:
    issued: int = 0
    refused: int = 0
    deepest: int = 0


def run_chain(rng: random.Random, counts: Counts) -> None:
    """One chain from the root token; raises AssertionError at the first difference."""
    token: AccessToken = root_token(1, b"")
    holder = root_holder()
    for depth in range(1, DEPTH_MAX + 1):
        request = random_request(rng, rng.choice(("a", "aa", "aa/a", "/a")), token)
        expected = child_of(holder, request)
        try:
            child = derive(request, token, NOW_MS)
        except (InvalidError, PermissionDeniedError):
            counts.refused += 1
            if _is_decidable(request, holder):
                assert expected is None, f"refused for no reason: {request} by {token}"
            return
        assert expected is not None, f"escalation: {request} by {token}"
        _compare(rng, child, expected, holder)
        token = replace(child, serial=depth + 1)
        holder = expected
        counts.issued += 1
        counts.deepest = max(counts.deepest, depth)


def _compare(rng: random.Random, child: AccessToken, expected: Holder, parent: Holder) -> None:
    """What the child may do is what the oracle says, and nothing that its parent may not."""
    grant = child.grant
    assert {op.value for op in grant.operations} == expected.ops <= parent.ops
    assert grant.name_prefix == expected.names_begin_with
    assert (child.expires_at and child.expires_at.unix_ns) == expected.expires_ns
    for _ in range(6):
        op = rng.choice(_OPS)
        basin, stream, token_id = rng.choice(UNIVERSE), rng.choice(UNIVERSE), rng.choice(UNIVERSE)
        allowed = grant.allows((op,), basin=basin, stream=stream, token_id=token_id)
        means = (
            op.value in expected.ops
            and basin in expected.basins
            and stream in expected.streams
            and token_id in expected.tokens
        )
        assert allowed == means, (child, op, basin, stream, token_id)
        said = grant.name_prefix + stream
        if len(said) <= NAME_LENGTH_MAX and grant.allows((op,), stream=said):
            assert said in parent.streams, f"a name out of the parent's: {said} by {child}"


def run_chains(count: int, seed: int) -> Counts:
    rng = random.Random(seed)
    counts = Counts()
    for _ in range(count):
        run_chain(rng, counts)
    return counts


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counts = run_chains(count, seed)
    print(f"{count} chains from seed {seed}: 0 escalations; {counts}")


if __name__ == "__main__":
    main()
