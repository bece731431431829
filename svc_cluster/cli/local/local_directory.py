"""The directory of a local cluster: whose it is, its secret, and the first root token."""

from __future__ import annotations

import json
import math
import os
import secrets
from pathlib import Path
from typing import Any, Final

from svc_cluster.cli.cluster_file import sync, write_atomically
from svc_cluster.cli.processes.foreign_things import foreign_thing
from svc_cluster.cli.processes.root_token import leave_change, new_secret, read_secret_text
from svc_cluster.settings_checks import refuse_secret
from svc_cluster.settings_errors import (
    EXIT_CONFIGURATION,
    EXIT_DIRECTORY,
    EXIT_MISSING_FILE,
    SettingsError,
)
from svc_cluster.storage.disk import DirectoryInUseError, lock_directory
from svc_cluster.storage.disk_trouble import remedy


class LocalError(Exception):
    """One sentence for the person at the terminal."""

    def __init__(self, text: str, exit_status: int = EXIT_CONFIGURATION) -> None:
        super().__init__(text)
        self.exit_status = exit_status


READY_VARIABLE: Final = "READY_SECONDS"
READY_SECONDS: Final = 60.0
"""How long each process has to become ready, where the environment says nothing else."""


def ready_seconds() -> float:
    """Return what READY_SECONDS says, above 0. Raises LocalError for what is no such number."""
    text = os.environ.get(READY_VARIABLE)
    if not text:
        return READY_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise LocalError(
            f"{READY_VARIABLE} is {text!r}: use a number of seconds above 0, or leave it out"
        )
    return seconds


class LocalDirectory:
    """The directory of one cluster. What an earlier run made in it stays as it is."""

    def __init__(self, path: Path, nodes: int) -> None:
        """The cluster in it has, or is to have, so many nodes. Raises LocalError."""
        self.path = path
        self.nodes = nodes
        self.patience = ready_seconds()
        """How long each of its processes has to become ready, in seconds."""

    def identity(self) -> tuple[dict[str, Any], Path]:
        """Cluster id and size, and the secret's file; made once, in the directory. Holds the
        directory until the process ends. Raises LocalError when another process has it, or it
        cannot be used."""
        secret = self.path / "cluster.secret"
        try:
            self._check_is_of_a_cluster()
            self._lock = lock_directory(self.path)
            return self._facts(secret), secret
        except DirectoryInUseError as cause:
            raise LocalError(str(cause), EXIT_DIRECTORY) from cause
        except OSError as cause:
            raise self.unusable(cause) from cause

    def _check_is_of_a_cluster(self) -> None:
        thing = foreign_thing(self.path, "local.json")
        if thing is not None:
            raise LocalError(
                f"{self.path} holds {thing}, which others may use, and no cluster: choose another "
                "--data-dir, since what is in a cluster's is for its own user alone",
                EXIT_DIRECTORY,
            )

    def unusable(self, cause: OSError) -> LocalError:
        """The sentence for a directory that refuses a file, with its remedy."""
        what_to_do = remedy(cause, self.path) or "choose another --data-dir"
        return LocalError(
            f"{self.path} cannot be used ({cause.strerror}): {what_to_do}", EXIT_DIRECTORY
        )

    def _facts(self, secret: Path) -> dict[str, Any]:
        path = self.path / "local.json"
        if path.exists():
            facts = _read_facts(path)
            if facts["nodes"] != self.nodes:
                raise LocalError(
                    f"{self.path} holds a cluster of {facts['nodes']} nodes, not "
                    f"{self.nodes}: use --nodes {facts['nodes']}, or another --data-dir"
                )
            if not secret.is_file():
                raise LocalError(
                    f"{secret} is missing: put the secret of this cluster back, or choose another "
                    "--data-dir"
                )
            return facts
        facts = {"cluster_id": secrets.token_hex(16), "nodes": self.nodes}
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32) + "\n")
        sync(secret)
        write_atomically(path, facts)
        sync(self.path)
        return facts

    def root_secret(self, file: Path | None) -> str | None:
        """The secret of the root token, made the first time and left to the first node. It is taken
        from `file`, or goes there. None: an earlier run made it. Raises LocalError."""
        made = self.path / "root-token.made"
        if made.exists():
            return None
        try:
            secret = _first_secret(file)
            leave_change(self.path / "node-1", secret, only_if_absent=True)
            made.touch()
        except SettingsError as cause:
            raise LocalError(str(cause), cause.exit_status) from cause
        except OSError as cause:
            raise self.unusable(cause) from cause
        return secret


def _first_secret(path: Path | None) -> str:
    """The root token's: from the file for it, or a new one, which goes there."""
    if path is None:
        return new_secret()
    try:
        return read_secret_text(path)
    except FileNotFoundError:
        refuse_secret("--root-token-file", str(path))
        secret = new_secret()
    except OSError as cause:
        raise _unusable_token_file(path, cause) from cause
    # whole or not at all: somebody may wait for it
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(secret + "\n")
        temporary.replace(path)
    except OSError as cause:
        raise _unusable_token_file(path, cause) from cause
    return secret


def _unusable_token_file(path: Path, cause: OSError) -> LocalError:
    """The refusal; raises CredentialError where it is no name of a file at all."""
    refuse_secret("--root-token-file", str(path))
    return LocalError(
        f"--root-token-file {path} cannot be used ({cause.strerror}): name a file that this user "
        "may read, or one to be made in a directory that is there",
        EXIT_MISSING_FILE,
    )


def overrides() -> dict[str, Any]:
    """Return settings for tests and experiments, which `SVC_CLUSTER_LOCAL_OVERRIDES` has as a JSON
    object."""
    try:
        overrides: dict[str, Any] = json.loads(os.environ.get("SVC_CLUSTER_LOCAL_OVERRIDES", "{}"))
    except ValueError as cause:
        raise LocalError("SVC_CLUSTER_LOCAL_OVERRIDES is not a JSON object") from cause
    return overrides


def _read_facts(path: Path) -> dict[str, Any]:
    """Raises LocalError for a file that this program did not write like that."""
    try:
        facts = json.loads(path.read_text())
    except ValueError:
        facts = None
    match facts:
        case {"cluster_id": str(), "nodes": int()}:
            return dict(facts)
        case _:
            raise LocalError(f"{path} is damaged: put it back, or choose another --data-dir")
