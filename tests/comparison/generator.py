"""One client process that knows how peers take an append as well."""

from __future__ import annotations

from svc_cluster.lab.load.generator import HTTP_CALLERS, main
from tests.comparison.protocols import CALLERS

if __name__ == "__main__":
    main({**HTTP_CALLERS, **CALLERS})
