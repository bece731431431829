"""The root token: made here, shown once, brought to the cluster as a hash.

A change lies as a file in a node's data directory until the catalog has it; a running node looks
for one now and then, and one that starts finds it. So whoever may write there can always get in
again, with no token at all and with the node down.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.base.clock import SystemClock
from svc_cluster.base.log import get_logger
from svc_cluster.base.tasks import Tasks
from svc_cluster.codec.config_json import rfc3339
from svc_cluster.model.access_secret import (
    SECRET_BYTES,
    is_secret_text,
    secret_hash,
    secret_text,
)
from svc_cluster.model.access_token import ROOT_TOKEN_ID
from svc_cluster.model.provision import Provision
from svc_cluster.settings_checks import refuse_secret
from svc_cluster.settings_errors import CredentialError, MissingFileError

if TYPE_CHECKING:
    from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
    from svc_cluster.replica.node import ReplicaNode

CHANGE_FILE: Final = "root-token.json"
_LOOK_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 0.3

log = get_logger("root_token")


@dataclass(frozen=True, slots=True)
class RootChange:
    """`change_id` tells one change from another, so that none is made twice."""

    secret_hash: bytes
    change_id: bytes
    only_if_absent: bool


def new_secret() -> str:
    return secret_text(secrets.token_bytes(SECRET_BYTES))


def leave_change(data_dir: Path, secret: str, *, only_if_absent: bool) -> Path:
    """Write the change that makes `secret` the root token's. Raises OSError."""
    data_dir.mkdir(parents=True, exist_ok=True)
    path = data_dir / CHANGE_FILE
    temporary = path.with_suffix(".tmp")
    change = {
        "secret_hash": secret_hash(secret).hex(),
        "change_id": secrets.token_hex(16),
        "only_if_absent": only_if_absent,
    }
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        owner = data_dir.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.fchown(handle, owner.st_uid, owner.st_gid)  # the node runs as that user
        json.dump(change, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(data_dir, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return path


def read_secret_text(path: Path) -> str:
    """The access token in a file. Raises OSError, CredentialError."""
    text = path.read_bytes().decode(errors="replace").strip()
    if not is_secret_text(text):
        raise CredentialError(
            f"root_token_file {path} holds no access token: make one with "
            "`svc-cluster admin new-token`"
        )
    return text


def given_change(path: Path) -> RootChange:
    """The root token that a file holds, for a cluster without one. Raises SettingsError."""
    try:
        hashed = secret_hash(read_secret_text(path))
    except OSError as cause:
        refuse_secret("root_token_file", str(path))
        raise MissingFileError(
            f"root_token_file {path} cannot be read ({cause.strerror}): put a token of "
            "`svc-cluster admin new-token` there, readable for this user"
        ) from cause
    return RootChange(hashed, hashed[:16], only_if_absent=True)


def _read_change(path: Path) -> RootChange | None:
    try:
        values = json.loads(path.read_text())
        return RootChange(
            bytes.fromhex(values["secret_hash"]),
            bytes.fromhex(values["change_id"]),
            bool(values["only_if_absent"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as cause:
        log.warning("root_token_change_unreadable", path=str(path), reason=str(cause))
        return None


class RootTokenChanges:
    """Brings changes to the catalog's leader, for as long as the node runs."""

    def __init__(
        self, node: ReplicaNode, data_dir: Path, given: RootChange | None, audit: AuditTrail
    ) -> None:
        self._audit = audit
        self._clock = SystemClock()
        self._node = node
        self._path = data_dir / CHANGE_FILE
        self._given = given
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.spawn(self._run(), "root token")

    async def close(self) -> None:
        await self._tasks.cancel_all()

    async def _run(self) -> None:
        if self._given is not None:
            await self._propose(self._given)
        while True:
            change = _read_change(self._path)
            if change is not None:
                await self._propose(change)
                if _read_change(self._path) == change:
                    self._path.unlink(missing_ok=True)
                    log.info("root_token_changed", only_if_absent=change.only_if_absent)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _propose(self, change: RootChange) -> None:
        def fill(request: pb.Request) -> None:
            request.set_root_token.secret_hash = change.secret_hash
            request.set_root_token.change_id = change.change_id
            request.set_root_token.only_if_absent = change.only_if_absent

        attempts = 0
        while True:
            attempts += 1
            response = await self._node.ask_catalog(fill)
            if response is not None and response.WhichOneof("result") == "done":
                break
            await asyncio.sleep(_RETRY_SECONDS)
        made_before = attempts == 1 and change == self._given
        if response.provision == Provision.CREATED or (
            response.provision == Provision.UPDATED and not made_before
        ):
            self._audit.record(
                {
                    "time": rfc3339(self._clock.wall_ms()),
                    "operation": "set-root-token",
                    "token": "-",
                    "token_id": ROOT_TOKEN_ID,
                    "effect": "done",
                    "node": self._node.config.node_id,
                },
                is_refusal=False,
            )
