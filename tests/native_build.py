"""The native core, compiled from the sources of this tree, whatever is installed."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PLACE: Final = ROOT / "svc_cluster" / "_native"
FLAGS: Final = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-DPy_LIMITED_API=0x030b0000")
SANITIZERS: Final = (
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
)


def compiler() -> str | None:
    """The compiler of this machine; None: there is none, or not what Python has for it."""
    found = shutil.which("cc")
    include = Path(sysconfig.get_paths()["include"])
    return found if (include / "Python.h").exists() else None


def compiled(directory: Path, *flags: str) -> Path:
    """The core as a module file in `directory`."""
    made = directory / "_core.abi3.so"
    cc = compiler()
    assert cc is not None, "asked only where there is a compiler"
    include = sysconfig.get_paths()["include"]
    sources = sorted(map(str, PLACE.glob("*.c")))
    command = [cc, *FLAGS, *flags, "-isystem", include, "-shared", "-fPIC", *sources]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


def loaded(path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader("svc_cluster._native._core", str(path))
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


@functools.cache
def core_of_this_tree() -> ModuleType:
    """Compiled once in a process. Asked only where there is a compiler."""
    with tempfile.TemporaryDirectory() as directory:
        return loaded(compiled(Path(directory)))
