"""The units of deploy/systemd without systemd: what they state is applied with the kernel's own
means, in a mount and a network namespace that end with the process.

Applied are those of `APPLIED`; a directive that is neither there nor in `NOT_TRIED` is a fault, so
that none is passed over in silence.
"""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
UNITS: Final = ROOT / "deploy" / "systemd"
APPLIED: Final = frozenset(
    {
        *("User", "Group", "ExecStart", "Environment", "LimitNOFILE", "NoNewPrivileges"),
        *("AmbientCapabilities", "CapabilityBoundingSet", "ProtectSystem", "ProtectHome"),
        *("PrivateTmp", "LogsDirectory", "LogsDirectoryMode", "EnvironmentFile"),
        *("StateDirectory", "StateDirectoryMode"),
    }
)
NOT_TRIED: Final = frozenset(
    {
        *("Type", "ExecReload", "Restart", "RestartSec", "RestartPreventExitStatus"),
        *(
            "TimeoutStartSec",
            "TimeoutStopSec",
            "KillSignal",
            "PrivateDevices",
            "ProtectKernelTunables",
        ),
        *("ProtectKernelModules", "ProtectControlGroups", "RestrictAddressFamilies"),
        *("RestrictNamespaces", "LockPersonality", "SystemCallArchitectures"),
    }
)
"""How systemd itself supervises, and filters of system calls and of the kernel's files, which only
it sets up."""
UID: Final = 65532
CAPABILITIES: Final = {"CAP_NET_BIND_SERVICE": 1 << 10}

Unit = dict[str, str]


def parse(path: Path) -> Unit:
    """The section [Service]; raises ValueError for what is in neither list."""
    section, out = "", Unit()
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            if key not in APPLIED | NOT_TRIED:
                raise ValueError(f"{path.name}: nothing is known of {key}")
            out[key] = value
    return out


def start(unit: Unit, files: Path, log: Path) -> subprocess.Popen[bytes]:
    """The unit's process, with `files` as /etc/svc-cluster and 10.0.0.1 as an address of its own.
    Needs root."""
    script = "\n".join([*_world(unit, files), shlex.join(["exec", *_process(unit, files)])])
    with log.open("wb") as output:
        return subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-euc", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
        )


def _world(unit: Unit, files: Path) -> list[str]:
    """The file system as the process sees it."""
    program = "/opt/svc-cluster"
    sources = {
        sys.base_prefix: f"{program}/python",
        sysconfig.get_path("platlib"): f"{program}/site-packages",
        str(ROOT / "svc_cluster"): f"{program}/source/svc_cluster",
        str(files): "/etc/svc-cluster",
    }
    libraries = f"PYTHONPATH={program}/site-packages:{program}/source"
    version = f"python3.{sys.version_info.minor}"
    wrapper = (
        f"#!/bin/sh\nLD_LIBRARY_PATH={program}/python/lib {libraries} "
        f'exec {program}/python/bin/{version} -m svc_cluster "$@"'
    )
    lines = [
        "mount --make-rprivate /",
        "ip link set lo up; ip addr add 10.0.0.1/24 dev lo",
        "mount -t tmpfs tmpfs /mnt; mkdir /mnt/etc; cp -a /etc/. /mnt/etc",
        "mount --bind /mnt/etc /etc",
        f"echo '{unit['User']}:x:{UID}:{UID}::/nonexistent:/bin/false' >> /etc/passwd",
        f"echo '{unit['Group']}:x:{UID}:' >> /etc/group",
        "mount -t tmpfs -o mode=755 tmpfs /opt",
    ]
    for source, target in sources.items():
        lines.append(f"mkdir -p {target}; mount --bind {shlex.quote(source)} {target}")
    lines += [
        f"mkdir {program}/bin; printf '%s\\n' {shlex.quote(wrapper)} > {program}/bin/svc-cluster",
        f"chmod 755 {program}/bin/svc-cluster",
    ]
    places = [("/var/lib", "StateDirectory"), ("/var/log", "LogsDirectory")]
    for parent, key in places:
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {parent}")
        if key in unit:
            owner = f"-o {unit['User']} -g {unit['Group']} -m {unit[f'{key}Mode']}"
            lines.append(f"install -d {owner} {parent}/{unit[key]}")
    if unit["PrivateTmp"] == "yes":
        lines.append("mount -t tmpfs -o mode=1777 tmpfs /tmp")
    if unit["ProtectHome"] == "yes":
        lines.append("for home in /root /home; do mount -t tmpfs -o mode=0 tmpfs $home; done")
    if unit["ProtectSystem"] == "strict":
        lines.append("for place in /opt /etc /; do mount -o remount,bind,ro $place; done")
    return lines


def open_files(unit: Unit) -> int:
    """What the unit states, or, where this machine allows less even to root, as much as it does."""
    stated, most = int(unit["LimitNOFILE"]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most != resource.RLIM_INFINITY and most < stated:
        print(f"LimitNOFILE={stated} is not tried: this machine allows {most}")
        return most
    return stated


def _environment(unit: Unit, files: Path) -> list[str]:
    named = unit.get("EnvironmentFile")
    lines = [] if named is None else (files / Path(named).name).read_text().splitlines()
    return [
        *unit["Environment"].split(),
        # quotes are the file's own, as systemd reads it
        *(word for line in lines if not line.startswith("#") for word in shlex.split(line)),
    ]


def _process(unit: Unit, files: Path) -> list[str]:
    """User, limits and capabilities, and what systemd then executes."""

    def caps(key: str) -> str:
        names = unit.get(key, "").lower().removeprefix("cap_").split()
        return ",".join(["-all", *(f"+{name}" for name in names)])

    most = open_files(unit)
    identity = [f"--reuid={unit['User']}", f"--regid={unit['Group']}", "--clear-groups"]
    rights = [f"--inh-caps={caps('AmbientCapabilities')}"]
    rights.append(f"--ambient-caps={caps('AmbientCapabilities')}")
    rights.append(f"--bounding-set={caps('CapabilityBoundingSet')}")
    if unit["NoNewPrivileges"] == "yes":
        rights.append("--no-new-privs")
    clean = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    return [
        *("prlimit", f"--nofile={most}:{most}", "setpriv", *identity, *rights),
        *(*clean, *_environment(unit, files), *unit["ExecStart"].split()),
    ]
