"""Everything secret that a new cluster needs, made once: a CA, the cluster's secret, the root
token, and for each process, and for whoever administers nodes, a directory with all that it needs
and nothing of the others. What is there already stays."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from svc_cluster.cli.authority import Authority, AuthorityError, certificate_names, issue, utc_now
from svc_cluster.cli.root_token import new_secret

SECRET: Final = "cluster.secret"
TOKEN: Final = "root-token"
_SHARED: Final = {"node": (SECRET, TOKEN), "gateway": (SECRET,)}
"""What the processes of a role need beside their own certificate."""


def bootstrap(
    directory: Path, ca: Path, nodes: Sequence[int], public_names: Sequence[str]
) -> list[str]:
    """Fill `directory` for the nodes of these ids, gateways, administrators, and a public
    certificate for `public_names`, with the CA in `ca`; returns what was made. Raises
    AuthorityError."""
    made = []
    if not (ca / "ca.key").exists():
        Authority.create(ca, utc_now)
        made.append("ca")
    authority = Authority(ca, utc_now)
    wanted = {f"node-{node}": certificate_names([node]) for node in nodes}
    wanted["gateway"] = certificate_names([], gateway=True)
    wanted["administrator"] = certificate_names([], administrator=True)
    wanted["public"] = list(public_names)
    for name, names in wanted.items():
        if names and not (directory / name / "tls.crt").exists():
            issue(authority, names, directory / name)
            made.append(name)
    for name, text in ((SECRET, secrets.token_hex(32)), (TOKEN, new_secret())):
        if _write_once(directory / name, text + "\n"):
            made.append(name)
    for name in wanted:
        for file in _SHARED.get(name.partition("-")[0], ()):
            _write_once(directory / name / file, _read(directory / file))
    return made


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as cause:
        raise AuthorityError(f"{path} cannot be read: {cause.strerror}") from cause


def _write_once(path: Path, text: str) -> bool:
    """Whole or not at all, readable by its owner only; False when it is there."""
    if path.exists():
        return False
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as cause:
        raise AuthorityError(f"{path} cannot be written: {cause.strerror}") from cause
    return True
