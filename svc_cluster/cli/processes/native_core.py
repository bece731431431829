"""Whether a process uses the native core, and how it says so.

The core changes no byte of any answer, so that it is not a setting: it is turned off to find out
whether a fault is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svc_cluster import _native
from svc_cluster.settings_errors import SettingsError

VARIABLE: Final = "SVC_CLUSTER_NATIVE"

IN_USE: Final = "in use"
NOT_BUILT: Final = "not built"
TURNED_OFF: Final = "turned off"


def choose_core(environment: Mapping[str, str]) -> None:
    """Use the core where it was built, unless the environment says `off`. Raises SettingsError for
    another word than `on` and `off`."""
    word = environment.get(VARIABLE, "on")
    if word not in ("on", "off"):
        raise SettingsError(f"the environment variable {VARIABLE} is `on` or `off`")
    _native.use(wanted=word == "on")


def core_state() -> str:
    """Return one of the three words above."""
    if _native.is_in_use():
        return IN_USE
    return NOT_BUILT if _native.source_digest() is None else TURNED_OFF
