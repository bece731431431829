"""Where settings come from: one file, the environment on top, unknown keys refused.

Order: default < file < environment (`SVC_CLUSTER_` and the key in capitals).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_checks import refuse_secret
from svc_cluster.settings_errors import MissingFileError, SettingsError
from svc_cluster.settings_secrets import MASK, names_secret, without_secrets
from svc_cluster.settings_yaml import YamlError, read_yaml

ENVIRONMENT_PREFIX: Final = "SVC_CLUSTER_"
OTHER_VARIABLES: Final = frozenset(
    {
        "BACKUP_ADDRESSES",
        "BACKUP_KEY_FILE",
        "BACKUP_OBJECTS_MAX",
        "BACKUP_OBJECT_MIB_MAX",
        "BACKUP_PLACE",
        "ENCRYPTION_KEY_FILE",
        "ID",
        "IMAGE",
        "LOCAL_OVERRIDES",
        "NATIVE",
        "PROCESS",
        "PROCESS_DIRECTORY",
        "REVISION",
        "SUPERVISOR_FD",
        "VERSION",
    }
)
"""What may stand behind the prefix without being a key of a node or a gateway."""

_Settings = TypeVar("_Settings", NodeSettings, GatewaySettings)


def load(kind: type[_Settings], path: Path | None, environment: Mapping[str, str]) -> _Settings:
    """Read, override from the environment, check; without a file everything comes from the
    environment. Raises SettingsError."""
    if path is None:
        return _with_environment(kind, {}, environment, "the environment")
    try:
        raw = _yaml(path.read_text(), f"the file {path}")
    except OSError as cause:
        refuse_secret("--config", str(path))
        raise MissingFileError(
            f"the file {path} cannot be read ({cause.strerror}): name one that this user may read "
            "with --config"
        ) from cause
    except UnicodeDecodeError as cause:
        raise SettingsError(f"the file {path} is not text in UTF-8") from cause
    if not isinstance(raw, dict):
        raise SettingsError(f"the file {path} must hold keys and values")
    return _with_environment(kind, dict(raw), environment, f"the file {path}")


def log_format(path: Path | None, environment: Mapping[str, str]) -> str:
    """Return `json` or `text`, as far as it can be told of settings that cannot be used. A refusal
    has the form that the log would have had."""
    said = environment.get(f"{ENVIRONMENT_PREFIX}LOG_FORMAT")
    if said is None and path is not None:
        try:
            found = _LOG_FORMAT.search(path.read_text(errors="replace"))
        except OSError:
            found = None
        said = None if found is None else found[1]
    return "text" if said == "text" else "json"


_LOG_FORMAT: Final = re.compile(r"""^log_format:\s*["']?(\w+)""", re.MULTILINE)


def with_environment(settings: _Settings, environment: Mapping[str, str]) -> _Settings:
    """For settings that come from no file: the same override, the same checks. Raises
    SettingsError."""
    values = msgspec.to_builtins(settings)
    return _with_environment(type(settings), values, environment, "the command line")


def _with_environment(
    kind: type[_Settings], values: dict[str, Any], environment: Mapping[str, str], source: str
) -> _Settings:
    known = keys_of(kind)
    for name, text in environment.items():
        key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name.startswith(ENVIRONMENT_PREFIX) and key in known:
            values[key] = _yaml(text, f"the environment variable {name}")
            source = f"{source} and {name}"
    check_variables(environment)
    try:
        settings = msgspec.convert(values, kind)
    except msgspec.ValidationError as cause:
        raise SettingsError(f"{source}: {_explanation(str(cause), values, known)}") from cause
    settings.check()
    return settings


def keys_of(kind: type[NodeSettings | GatewaySettings]) -> list[str]:
    """Return every key of a kind of process, in the order in which it is declared."""
    return [field.name for field in msgspec.structs.fields(kind)]


def check_variables(environment: Mapping[str, str]) -> None:
    """Raises SettingsError for a variable with our prefix that is nobody's. It may be a key of a
    node or of a gateway, which may share one environment, or one of `OTHER_VARIABLES`."""
    known = {key.upper() for kind in (NodeSettings, GatewaySettings) for key in keys_of(kind)}
    for name in environment:
        rest = name.removeprefix(ENVIRONMENT_PREFIX)
        if name.startswith(ENVIRONMENT_PREFIX) and rest not in known | OTHER_VARIABLES:
            near = _nearest(rest, known, ENVIRONMENT_PREFIX)
            raise SettingsError(
                f"the environment variable {name[:VALUE_CHARACTERS_MAX]} is no setting: remove it, "
                f"or correct it{near}; docs/configuration.md has every key (a Kubernetes Service "
                "called svc-cluster makes such variables: set enableServiceLinks to false)"
            )


def _nearest(word: str, known: Iterable[str], prefix: str = "") -> str:
    found = difflib.get_close_matches(word, sorted(known), 1)
    return f" (did you mean {prefix}{found[0]}?)" if found else ""


def _explanation(fault: str, values: Mapping[str, Any], known: Iterable[str]) -> str:
    """The decoder's words with key, value and remedy in them. Nobody knows what stands under a key
    that we do not: `root_token`, for one, so that is not repeated."""
    page = "docs/configuration.md has every key"
    if found := _UNKNOWN_KEY.fullmatch(fault):
        near = _nearest(found[1], known)
        return f"there is no key {found[1]}: remove it, or correct it{near}; {page}"
    if found := _MISSING_KEY.fullmatch(fault):
        return f"{found[1]} is missing: set it; {page}"
    if found := _WRONG_VALUE.fullmatch(fault):
        value = MASK
        if not names_secret(found[2]):
            value = without_secrets(repr(values.get(found[2])))[:VALUE_CHARACTERS_MAX]
        return f"{found[2]} is {value}: {found[1][0].lower()}{found[1][1:]}; {page}"
    return f"{fault}; {page}"


VALUE_CHARACTERS_MAX: Final = 80
_UNKNOWN_KEY: Final = re.compile(r"Object contains unknown field `(\w+)`")
_MISSING_KEY: Final = re.compile(r"Object missing required field `(\w+)`")
_WRONG_VALUE: Final = re.compile(r"(.+) - at `\$\.(\w+).*`")


def _yaml(text: str, where: str) -> Any:
    """Raises SettingsError."""
    try:
        return read_yaml(text)
    except YamlError as cause:
        raise SettingsError(f"{where} {cause}") from None
