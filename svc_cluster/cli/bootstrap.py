"""Everything secret that a new cluster needs, made once in one directory: a CA, a certificate for
each process, the cluster's secret and the root token. What is there already stays."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from svc_cluster.cli.authority import Authority, AuthorityError, certificate_names, issue, utc_now
from svc_cluster.cli.root_token import new_secret


def bootstrap(
    directory: Path, ca: Path, nodes: Sequence[int], public_names: Sequence[str]
) -> list[str]:
    """Fill `directory` for the nodes of these ids, gateways, and a public certificate for
    `public_names`, with the CA in `ca`; returns what was made. Raises AuthorityError."""
    made = []
    if not (ca / "ca.key").exists():
        Authority.create(ca, utc_now)
        made.append("ca")
    authority = Authority(ca, utc_now)
    wanted = {f"node-{node}": certificate_names([node]) for node in nodes}
    wanted["gateway"] = certificate_names([], gateway=True)
    wanted["public"] = list(public_names)
    for name, names in wanted.items():
        if names and not (directory / name / "tls.crt").exists():
            issue(authority, names, directory / name)
            made.append(name)
    for name, text in (
        ("cluster.secret", secrets.token_hex(32)),
        ("root-token", new_secret()),
    ):
        if _write_once(directory / name, text + "\n"):
            made.append(name)
    return made


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
