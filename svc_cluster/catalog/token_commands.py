"""What can change the access tokens. Secrets are known by their hashes only."""

from __future__ import annotations

from dataclasses import dataclass

from svc_cluster.base.ids import TimestampMs
from svc_cluster.model.access_token import AccessToken


@dataclass(frozen=True, slots=True)
class IssueToken:
    """`token` has no serial yet. Tokens that have expired by `issued_at_ms` are dropped first."""

    token: AccessToken
    issued_at_ms: TimestampMs


@dataclass(frozen=True, slots=True)
class RevokeToken:
    """This token and all that come from it."""

    serial: int


@dataclass(frozen=True, slots=True)
class SetRootToken:
    """The root token gets this hash. With `only_if_absent` one that is there stays. `change_id` is
    random: a change that is asked for again, however late, is made once."""

    secret_hash: bytes
    change_id: bytes
    only_if_absent: bool


TokenCommand = IssueToken | RevokeToken | SetRootToken
