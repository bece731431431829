"""What pyproject.toml cannot say: the native core, left out where nothing can compile it, or where
SVC_CLUSTER_NATIVE is `off`, as it is when the service runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from setuptools import Extension, setup

PLACE = Path("svc_cluster/_native")
HEADERS = sorted(map(str, PLACE.glob("*.h")))
SOURCES = sorted(map(str, PLACE.glob("*.c")))


def digest() -> str:
    """Of all its sources, which the core tells: a test compares it with what is there."""
    names = sorted(HEADERS + SOURCES)
    return hashlib.sha256(b"".join([Path(name).read_bytes() for name in names])).hexdigest()


def core() -> Extension:
    return Extension(
        "svc_cluster._native._core",
        SOURCES,
        depends=HEADERS,
        define_macros=[("Py_LIMITED_API", "0x030b0000"), ("SOURCE_DIGEST", f'"{digest()}"')],
        extra_compile_args=[
            "-std=c11",
            "-pthread",
            "-O2",
            "-Wall",
            "-Wextra",
            "-fvisibility=hidden",
        ],
        py_limited_api=True,
        optional=True,
    )


if os.environ.get("SVC_CLUSTER_NATIVE") == "off":
    setup()
else:
    setup(ext_modules=[core()], options={"bdist_wheel": {"py_limited_api": "cp311"}})
