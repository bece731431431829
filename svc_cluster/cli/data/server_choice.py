"""Which server a command asks is decided here. Options go before the environment, that before the
profile; what nobody says is a cluster on this machine."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from svc_cluster.cli.data.profiles import Profile, ProfileError, profiles_path, read_profiles
from svc_cluster.cli.data.secret_reading import read_secret_file
from svc_cluster.client.client_errors import ClientError
from svc_cluster.client.service_client import ServerAddress, checked_url

URL_DEFAULT: Final = "http://127.0.0.1:8080"
TOKEN_BYTES_MAX: Final = 4096
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the command line says."""

    profile: str | None = None
    url: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None


_OF_PROFILE: Final = "the profile's url"
_OF_NOBODY: Final = "the default"


def chosen_server(
    options: ServerOptions, environment: Mapping[str, str] = os.environ
) -> ServerAddress:
    """Return the server to ask. A profile that is named goes before the environment; the default
    one goes behind it. Raises ClientError."""
    path = profiles_path(environment)
    try:
        profile = _profile(options.profile, path)
    except ProfileError as cause:
        raise ClientError(str(cause)) from cause
    named = profile if options.profile is not None else Profile()
    url, what = _first(
        (options.url, "--url"),
        (named.url, _OF_PROFILE),
        (environment.get("S2_ACCOUNT_ENDPOINT"), "S2_ACCOUNT_ENDPOINT"),
        (profile.url, _OF_PROFILE),
        (URL_DEFAULT, _OF_NOBODY),
    )
    basin_url, basin_what = None, ""
    if options.url is None:
        basin_url, basin_what = _basin_url(profile, named, what, environment)
    ca_file = options.ca_file or _beside(path, named.ca_file) or _beside(path, profile.ca_file)
    token_file = options.token_file or _beside(path, named.token_file)
    token = None if token_file is not None else environment.get("S2_ACCESS_TOKEN", "").strip()
    if not token:
        # the default profile's token is for its own server, not for one that is named elsewhere
        if what in (_OF_PROFILE, _OF_NOBODY):
            token_file = token_file or _beside(path, profile.token_file)
        token = None if token_file is None else _read_token(token_file)
    return ServerAddress(
        url=checked_url(url, what),
        basin_url=None if basin_url is None else checked_url(basin_url, basin_what),
        token=None if token is None else _checked_token(token),
        tls=_trust(ca_file, environment),
    )


def _profile(name: str | None, path: Path) -> Profile:
    profiles = read_profiles(path)
    wanted = profiles.default if name is None else name
    if wanted is None:
        return Profile()
    if wanted not in profiles.profiles:
        there = ", ".join(sorted(profiles.profiles)) or "none"
        raise ProfileError(f"there is no profile {wanted!r} in {path}, there are: {there}")
    return profiles.profiles[wanted]


def _first(*candidates: tuple[str | None, str]) -> tuple[str, str]:
    return next((text, what) for text, what in candidates if text)


def _basin_url(
    profile: Profile, named: Profile, what: str, environment: Mapping[str, str]
) -> tuple[str | None, str]:
    """Where basins are asked: from the same place as the account's address, so that the two are
    of one server."""
    if what == "S2_ACCOUNT_ENDPOINT" or (what == "the default" and not named.url):
        return environment.get("S2_BASIN_ENDPOINT") or None, "S2_BASIN_ENDPOINT"
    return profile.basin_url, "the profile's basin_url"


def _beside(path: Path, name: str | None) -> Path | None:
    return None if name is None else path.parent / Path(name).expanduser()


def _read_token(path: Path) -> str:
    text = read_secret_file(path, "the token file", "--token-file", TOKEN_BYTES_MAX)
    if not text:
        raise ClientError(f"the token file {path} is empty: put an access token into it")
    return text


def _checked_token(token: str) -> str:
    """It goes into a header, and is never repeated in a message."""
    if len(token) > TOKEN_BYTES_MAX or not token.isascii() or any(c <= " " for c in token):
        raise ClientError("what is given as access token is none: it is one word of ASCII")
    return token


def _trust(ca_file: Path | None, environment: Mapping[str, str]) -> ssl.SSLContext | None:
    if ca_file is not None:
        try:
            return ssl.create_default_context(cafile=str(ca_file))
        except (OSError, ssl.SSLError) as cause:
            is_content = isinstance(cause, ssl.SSLError) or not cause.strerror
            reason = "it holds no certificates" if is_content else cause.strerror
            raise ClientError(f"the CA file {ca_file} cannot be used: {reason}") from cause
    if environment.get("S2_SSL_NO_VERIFY", "").lower() not in _FALSE:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    return None
