"""The init file of a gateway, as it is found on the disk, with the secrets that it leads to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from svc_cluster.codec.declarations_json import (
    INIT_FILE_BYTES_MAX,
    DeclarationError,
    decode_declarations,
)
from svc_cluster.model.access_secret import is_secret_text, secret_hash
from svc_cluster.model.declarations import Declarations, DeclaredToken, SecretSource
from svc_cluster.settings_checks import refuse_secret
from svc_cluster.settings_errors import CredentialError, MissingFileError, SettingsError

SECRET_FILE_BYTES_MAX: Final = 4096
"""A longer file holds no access token, whatever it begins with."""


def read_init_file(path: Path, environment: Mapping[str, str] = os.environ) -> Declarations:
    """What the file declares; of the tokens' secrets the hashes. Raises SettingsError, which names
    the file and the place in it."""
    try:
        with path.open("rb") as file:
            body = file.read(INIT_FILE_BYTES_MAX + 1)
    except OSError as cause:
        refuse_secret("init_file", str(path))
        raise MissingFileError(
            f"init_file {path} cannot be read ({cause.strerror}): name a file of declarations that "
            "this user may read, or leave it out"
        ) from cause
    try:
        declared = decode_declarations(body)
    except DeclarationError as cause:
        raise SettingsError(
            f"init_file {path}: {cause}; docs/init-file.md has every member"
        ) from cause
    tokens = tuple(_with_hash(token, path, environment) for token in declared.tokens)
    owners: dict[bytes, DeclaredToken] = {}
    for token in tokens:
        first = owners.setdefault(token.secret_hash, token)
        if first is not token:
            raise CredentialError(
                f"init_file {path}: {token.source.path} has the secret of {first.path} too: give "
                "each token its own"
            )
    return replace(declared, tokens=tokens)


def _with_hash(token: DeclaredToken, path: Path, environment: Mapping[str, str]) -> DeclaredToken:
    where = f"init_file {path}: {token.source.path}"
    text = _secret(token.source, where, path.parent, environment)
    if not is_secret_text(text):
        raise CredentialError(
            f"{where} leads to no access token: make one with `svc-cluster admin new-token`"
        )
    return replace(token, secret_hash=secret_hash(text))


def _secret(
    source: SecretSource, where: str, directory: Path, environment: Mapping[str, str]
) -> str:
    """A relative name of a file is meant from where the init file is."""
    if source.variable is not None:
        text = environment.get(source.variable)
        if text is None:
            raise CredentialError(
                f"{where} names the environment variable {source.variable}, which is not set: set "
                "it to an access token of `svc-cluster admin new-token`"
            )
        return text.strip()
    assert source.file is not None, "a token has one of the two"
    try:
        with (directory / source.file).open("rb") as file:
            return file.read(SECRET_FILE_BYTES_MAX).decode(errors="replace").strip()
    except OSError as cause:
        refuse_secret(where, source.file)
        raise MissingFileError(
            f"{where} names {source.file}, which cannot be read ({cause.strerror}): put an access "
            "token of `svc-cluster admin new-token` there, readable for this user"
        ) from cause
