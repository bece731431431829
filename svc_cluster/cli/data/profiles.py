"""Profiles: which servers a person asks, by name, in `~/.config/svc-cluster/config.toml`. Access
tokens are not in it, only the files that hold them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

PROFILES_BYTES_MAX: Final = 1024 * 1024
NAME_CHARACTERS_MAX: Final = 64


class ProfileError(Exception):
    """One sentence about the file, or a profile in it."""


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One server. Relative names of files are meant from the profiles' file."""

    url: str | None = None
    basin_url: str | None = None
    token_file: str | None = None
    ca_file: str | None = None


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All of the file. `default`: the profile that is used where none is named."""

    default: str | None = None
    profiles: dict[str, Profile] = {}


def profiles_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the file is, whether or not it is there."""
    home = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config"
    return Path(home) / "svc-cluster" / "config.toml"


def read_profiles(path: Path) -> Profiles:
    """Return what the file holds, nothing where there is none. Raises ProfileError."""
    try:
        with path.open("rb") as file:
            body = file.read(PROFILES_BYTES_MAX + 1)
    except FileNotFoundError:
        return Profiles()
    except OSError as cause:
        raise ProfileError(f"{path} cannot be read: {cause.strerror}") from cause
    if len(body) > PROFILES_BYTES_MAX:
        raise ProfileError(f"{path} has more than {PROFILES_BYTES_MAX} bytes: it is no such file")
    try:
        return msgspec.convert(tomllib.loads(body.decode()), Profiles)
    except (ValueError, msgspec.ValidationError) as cause:
        raise ProfileError(
            f"{path} is not a file of profiles ({cause}): mend it, or write it anew with "
            "`svc-cluster profile set`"
        ) from cause


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Whole or not at all, for its owner only. Raises ProfileError."""
    lines = [] if profiles.default is None else [f"default = {_text(profiles.default)}", ""]
    for name, profile in sorted(profiles.profiles.items()):
        lines.append(f"[profiles.{_text(name)}]")
        lines += [f"{key} = {_text(text)}" for key, text in given(profile).items()]
        lines.append("")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as out:
            out.write("\n".join(lines))
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as cause:
        raise ProfileError(f"{path} cannot be written: {cause.strerror}") from cause


def given(profile: Profile) -> dict[str, str]:
    """Return the members that are set."""
    found = msgspec.to_builtins(profile)
    return {str(key): str(value) for key, value in found.items()}


def is_profile_name(name: str) -> bool:
    """Whether a profile may be called so."""
    return 0 < len(name) <= NAME_CHARACTERS_MAX and name.isprintable()


def _text(text: str) -> str:
    """Return it as TOML writes it: its escapes are those of JSON but for DEL."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
