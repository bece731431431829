"""`python -m svc_cluster`, and the `svc-cluster` command."""

from __future__ import annotations

import os

from svc_cluster.cli.main import app
from svc_cluster.storage.private import UMASK


def main() -> None:
    os.umask(UMASK)
    app()


if __name__ == "__main__":
    main()
