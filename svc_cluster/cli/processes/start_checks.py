"""A process looks at this before it opens or listens on anything, so that a bad start ends with one
sentence. It looks at directories, and at how many files it may have open."""

from __future__ import annotations

import errno
import json
import os
import resource
from pathlib import Path
from typing import Final

from svc_cluster.cli.processes.foreign_things import foreign_thing
from svc_cluster.link.acceptor import CONVERSATIONS_MAX, STRANGERS_MAX, UNPROVEN_MAX
from svc_cluster.settings import GatewaySettings, NodeSettings
from svc_cluster.settings_errors import DirectoryError, LimitError, SettingsError
from svc_cluster.storage.disk_trouble import remedy
from svc_cluster.storage.payload.payload_settings import PayloadSettings
from svc_cluster.storage.restoring import RESTORING, is_half_restored
from svc_cluster.storage.rocks_settings import RocksSettings

_MEMBERS: Final = "members.json"
_FILES_OF_A_PROCESS: Final = 64
"""Interpreter, event loop, logs, locks, listeners."""
_FILES_FOR_A_PEER: Final = 4
"""A connection each way, and one more each way while a link is made anew."""
_FILES_FOR_CALLERS: Final = UNPROVEN_MAX + CONVERSATIONS_MAX + STRANGERS_MAX
"""So many may call at a time: a node that cannot open its own files for them ends."""
_FILES_BESIDE: Final = 32
"""Payload files and tables that are written, made, read or compacted, beside those held open."""
_FILES_OF_THE_STORE: Final = (
    RocksSettings().open_files_max + PayloadSettings().open_files_max + _FILES_BESIDE
)
_FILES_FOR_CLIENTS: Final = 256
"""A gateway that holds fewer connections is of no use."""

EMBEDDED_FILES_MIN: Final = 1024
"""The files of a node and a gateway in one process, whatever their settings."""


def node_files_min(settings: NodeSettings) -> int:
    """Open files that a node cannot do without."""
    segments = settings.wal_retain_mib // settings.wal_segment_mib + 2
    peers = _FILES_FOR_A_PEER * (len(settings.nodes) - 1)
    return _FILES_OF_A_PROCESS + _FILES_FOR_CALLERS + _FILES_OF_THE_STORE + segments + peers


def gateway_files_min(settings: GatewaySettings) -> int:
    """Open files that a gateway cannot do without."""
    return _FILES_OF_A_PROCESS + _FILES_FOR_CLIENTS + _FILES_FOR_A_PEER * len(settings.nodes)


def group_files_min(settings: GatewaySettings) -> int:
    """Open files that the parent of a gateway's processes cannot do without."""
    return _FILES_OF_A_PROCESS + 2 * settings.processes


def embedded_connections_max(node: NodeSettings, wanted: int) -> int:
    """Return how many connections a gateway may take that shares the process with this node.

    It is what the node's files leave of the limit, and at least one. A node that can open no file
    of its own ends; a gateway that can take no connection waits.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, hard - node_files_min(node)))


def raise_file_limit(files_min: int) -> None:
    """Raise the limit to as many open files as we may have. The usual 1,024 are few for a gateway's
    connections, and what limit the system set stays the limit. Raises LimitError where that is
    below `files_min`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < files_min:
        raise LimitError(
            f"RLIMIT_NOFILE is {hard}, and with these settings the process needs {files_min} open "
            "files at least: raise it (`ulimit -Hn`, LimitNOFILE= of a systemd unit, --ulimit "
            "nofile of a container)"
        )


def check_is_of_a_node(directory: Path) -> None:
    """Raises DirectoryError for a directory of somebody else, from whom it would be taken."""
    try:
        thing = foreign_thing(directory, "wal", RESTORING)
    except OSError as cause:
        raise unusable(directory, cause) from cause
    if thing is not None:
        raise DirectoryError(
            f"data_dir {directory} holds {thing}, which others may use, and no data of a node: "
            "name another one, since what is in a node's is for its own user alone"
        )


def check_data_dir(directory: Path) -> None:
    """Make what is not there, and see that this user may read and write in all of it, that it is
    whole, and nobody else's. Raises DirectoryError."""
    check_is_of_a_node(directory)
    for place in (directory, directory / "wal", directory / "state"):
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as cause:
            raise unusable(directory, cause) from cause
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            code = errno.EROFS if _is_read_only(place) else errno.EACCES
            raise unusable(directory, OSError(code, os.strerror(code), str(place)))
        if place == directory and is_half_restored(directory):
            raise DirectoryError(
                f"data_dir {directory} is half restored from a backup: repeat `svc-cluster backup "
                "restore` to its end"
            )


def check_members(directory: Path, settings: NodeSettings) -> None:
    """The ids in `nodes` are those that this data directory began with. Nodes that go by different
    lists could have two majorities. Addresses may change. Raises SettingsError, DirectoryError."""
    path = directory / _MEMBERS
    try:
        known = json.loads(path.read_text())
    except FileNotFoundError:
        return
    except (OSError, ValueError) as cause:
        raise DirectoryError(
            f"{path} cannot be read ({cause}): put it back, it is a list of the ids in nodes"
        ) from cause
    if known != _ids(settings):
        raise SettingsError(
            f"nodes has the ids {_ids(settings)}, and data_dir {directory} belongs to a cluster of "
            f"{known}: put the ids back; a node that comes later comes with a token (svc-cluster "
            "admin member add) and stands in nobody's settings"
        )


def remember_members(directory: Path, settings: NodeSettings) -> None:
    """For later starts; once it is written it stays. Raises DirectoryError."""
    path = directory / _MEMBERS
    if path.exists():
        return
    try:
        _write_durably(path, json.dumps(_ids(settings)))
    except OSError as cause:
        raise unusable(directory, cause) from cause


def _ids(settings: NodeSettings) -> list[int]:
    return sorted(int(node) for node in settings.nodes)


def _write_durably(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unusable(directory: Path, cause: OSError) -> DirectoryError:
    """The refusal for a data directory that answered with `cause`."""
    where = "" if cause.filename in (None, str(directory)) else f" at {cause.filename}"
    what_to_do = remedy(cause, directory) or (
        f"give this user (uid {os.getuid()}) the right to read and write everything in it, or "
        "choose another directory"
    )
    return DirectoryError(
        f"data_dir {directory} cannot be used ({cause.strerror}{where}): {what_to_do}"
    )


def _is_read_only(place: Path) -> bool:
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)
