"""This module makes everything secret that a new cluster needs, once. It is a CA, the cluster's
secret, and the root token. For each process, and for whoever administers nodes, it is also a
directory with all that it needs and nothing of the others. What is there already stays, but
certificates of that CA that are near their end: those are made anew."""

from __future__ import annotations

import datetime
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from svc_cluster.cli.admin.authority import Authority, AuthorityError, certificate_names, issue
from svc_cluster.cli.processes.own_certificate import read_certificate, utc_now
from svc_cluster.cli.processes.root_token import new_secret
from svc_cluster.link.tls import CertificateError

SECRET: Final = "cluster.secret"
TOKEN: Final = "root-token"
RENEW_BEFORE: Final = datetime.timedelta(days=30)
"""A certificate that ends within this time is made anew: a third of the time that it is valid."""
_SHARED: Final = {"node": (SECRET, TOKEN), "gateway": (SECRET,)}
"""What the processes of a role need beside their own certificate."""


def bootstrap(
    directory: Path,
    ca: Path,
    nodes: Sequence[int],
    public_names: Sequence[str],
    now: Callable[[], datetime.datetime] = utc_now,
) -> list[str]:
    """Fill `directory` for the nodes of these ids, gateways and administrators, with the CA in
    `ca`. The directory gets a public certificate for `public_names` too. Returns what was made.
    Raises AuthorityError."""
    made = []
    if not ((ca / "ca.key").exists() and (ca / "ca.pem").exists()):
        Authority.create(ca, now)
        made.append("ca")
    authority = Authority(ca, now)
    wanted = {f"node-{node}": certificate_names([node]) for node in nodes}
    wanted["gateway"] = certificate_names([], gateway=True)
    wanted["administrator"] = certificate_names([], administrator=True)
    wanted["public"] = list(public_names)
    for name, names in wanted.items():
        if names and _is_wanted(directory / name, authority, now()):
            issue(authority, names, directory / name)
            made.append(name)
    for name, text in ((SECRET, secrets.token_hex(32)), (TOKEN, new_secret())):
        if _write_once(directory / name, text + "\n"):
            made.append(name)
    for name in wanted:
        for file in _SHARED.get(name.partition("-")[0], ()):
            _write_once(directory / name / file, _read(directory / file))
    return made


def _is_wanted(place: Path, authority: Authority, now: datetime.datetime) -> bool:
    """Whether there is no certificate there, or one of this CA that is near its end. A part of what
    a call was to write that was broken off is none."""
    certificate = place / "tls.crt"
    if not all((place / file).exists() for file in ("tls.crt", "tls.key", "ca.crt")):
        return True
    try:
        end = read_certificate(certificate).not_valid_after_utc
    except CertificateError as cause:
        raise AuthorityError(str(cause)) from cause
    is_ours = _read(place / "ca.crt") == _read(authority.certificate_path)
    return is_ours and end - now < RENEW_BEFORE


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
