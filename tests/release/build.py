"""A release in one directory, built twice in different places and compared byte by byte.

`python -m tests.release.build --out DIRECTORY [--once] [--image FILE]` makes: the wheel with the
native core (where something can compile it) and the one without, the source distribution, the chart
as Helm packs it, the list of parts (CycloneDX) and SHA256SUMS. Only committed files take part. Time
is SOURCE_DATE_EPOCH, or that of the last commit.

Status 0: built, and twice alike; 1: something differs or cannot be built, which is named.
"""

from __future__ import annotations

import argparse
import filecmp
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final

from tests.release.parts import bill_of_parts

ROOT: Final = Path(__file__).resolve().parents[2]
ZIP_EPOCH_MIN: Final = 315_532_800
"""1980-01-01: a wheel is a zip file, which knows no time before."""
CHART: Final = Path("helm/svc-cluster")
LOCKS: Final = ("requirements/run.lock", "requirements/otel.lock")


NAMED_MAX: Final = 10
"""Changed files that are named."""


class ReleaseError(Exception):
    """A part cannot be built, or comes out differently the second time."""


def epoch(root: Path) -> int:
    """Return the time that every part is of."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        given = output("git", "-C", str(root), "log", "-1", "--format=%ct").strip()
    return max(int(given), ZIP_EPOCH_MIN)


def check_committed(root: Path) -> None:
    """Raises ReleaseError where tracked files are not as the last commit has them."""
    changed = output(
        *("git", "-C", str(root), "status", "--porcelain", "--untracked-files=no")
    ).splitlines()
    if changed:
        some = ", ".join(line[3:] for line in changed[:NAMED_MAX])
        raise ReleaseError(
            f"{len(changed)} changes are not committed ({some}): they would stand under the time "
            "of a commit that does not have them; commit them, or put them aside"
        )


def output(*command: str, cwd: Path | None = None, **environment: str) -> str:
    """Return what a command prints. Raises ReleaseError where it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def version_of(tree: Path) -> str:
    return str(tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"])


def copy_tracked(root: Path, target: Path) -> None:
    """Copy what git knows, as it stands in the tree, with modes that no umask decides."""
    for name in output("git", "-C", str(root), "ls-files", "-z").split("\0"):
        if name and (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, target / name)
            (target / name).chmod(0o755 if os.access(root / name, os.X_OK) else 0o644)


def packed(source: Path, prefix: str, target: Path, time: int) -> None:
    """Pack a folder so that only its content decides: sorted, of nobody, of one time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(each for each in source.rglob("*") if each.is_file()):
            entry = tarfile.TarInfo(f"{prefix}/{path.relative_to(source).as_posix()}")
            entry.size, entry.mtime = path.stat().st_size, time
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=time) as compressed:
        compressed.write(raw.getvalue())


def build(root: Path, out: Path, *, native: bool, time: int) -> None:
    """Build every part into `out`, in a copy of the tree at a place of its own."""
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="svc-release-") as folder:
        tree = Path(folder) / "tree"
        copy_tracked(root, tree)
        version = version_of(tree)
        environment = {
            "SOURCE_DATE_EPOCH": str(time),
            "PYTHONHASHSEED": "0",
            "CFLAGS": f"-g0 -ffile-prefix-map={tree}=.",
        }
        wheel(tree, out, environment | {"SVC_CLUSTER_NATIVE": "off"})
        if native:
            wheel(tree, out, environment | {"SVC_CLUSTER_NATIVE": "on"})
            if not list(out.glob("*-abi3-*.whl")):
                raise ReleaseError("the wheel has no native core, though there is a compiler")
        source(tree, out, version, environment, time)
        packed(tree / CHART, CHART.name, out / f"{CHART.name}-{version}.tgz", time)
        locks = [tree / lock for lock in LOCKS]
        (out / f"svc-cluster-{version}.cdx.json").write_text(bill_of_parts(version, locks, time))


def wheel(tree: Path, out: Path, environment: dict[str, str]) -> None:
    """Build one wheel; what a build leaves behind does not get into the next one."""
    shutil.rmtree(tree / "build", ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    output(*pip, "--no-deps", "--no-build-isolation", "-w", str(out), ".", cwd=tree, **environment)
    shutil.rmtree(tree / "build", ignore_errors=True)


def source(tree: Path, out: Path, version: str, environment: dict[str, str], time: int) -> None:
    """Build the source distribution, and pack it once more, without this machine's traces."""
    call = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    output(sys.executable, "-c", call, cwd=tree, **environment)
    name = f"svc_cluster-{version}"
    with tarfile.open(tree / "dist" / f"{name}.tar.gz") as tar:
        tar.extractall(tree / "unpacked", filter="data")
    packed(tree / "unpacked" / name, name, out / f"{name}.tar.gz", time)


def differences(first: Path, second: Path) -> list[str]:
    """Return the names of files that two releases do not have alike."""
    names = sorted({path.name for place in (first, second) for path in place.iterdir()})
    _, unlike, missing = filecmp.cmpfiles(first, second, names, shallow=False)
    return sorted(unlike + missing)


def sums(out: Path) -> str:
    """Return what `sha256sum --check` reads."""
    lines = []
    for path in sorted(out.iterdir()):
        if path.name != "SHA256SUMS":
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return "".join(lines)


def can_compile() -> bool:
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    return shutil.which("cc") is not None and header.is_file()


def release(root: Path, out: Path, *, twice: bool, native: bool, image: Path | None) -> None:
    """Build, compare and sum up. Raises ReleaseError; `out` has nothing then."""
    check_committed(root)
    time = epoch(root)
    with tempfile.TemporaryDirectory(prefix="svc-release-") as folder:
        first = Path(folder) / "first"
        build(root, first, native=native, time=time)
        if twice:
            build(root, Path(folder) / "second", native=native, time=time)
            unlike = differences(first, Path(folder) / "second")
            if unlike:
                raise ReleaseError(f"built twice, these differ: {', '.join(unlike)}")
        if image is not None:
            shutil.copyfile(image, first / image.name)
        (first / "SHA256SUMS").write_text(sums(first))
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(first, out)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.release.build")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--once", action="store_true", help="do not build a second time")
    parser.add_argument("--image", type=Path, help="an image that was saved, to be summed up too")
    given = parser.parse_args()
    native = can_compile()
    try:
        release(ROOT, given.out, twice=not given.once, native=native, image=given.image)
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    print((given.out / "SHA256SUMS").read_text(), end="")
    print("built once" if given.once else "built twice, alike byte by byte")
    if not native:
        print("no compiler with Python's headers: there is no wheel with the native core")
    if given.image is None:
        print("no image was given: a container engine makes one (make release)")
    else:
        print(f"{given.image.name} was built once: its engine writes the time into it")


if __name__ == "__main__":
    main()
