"""`python -m svc_cluster`, and the `svc-cluster` command."""

from __future__ import annotations

import os
import sys
from typing import Final

from svc_cluster.storage.private import UMASK

DATA_GROUPS: Final = frozenset(
    {"apply", "basin", "copy", "profile", "size", "stream", "token", "usage"}
)
"""What begins these commands needs a client only: the rest is not loaded for them."""

PROCESSES: Final = frozenset({"gateway", "node"})
"""These run for as long as the machine does, and load nothing that they do not use."""

BACKUP: Final = "backup"
"""What speaks to buckets has threads that nobody can wait for."""


def main() -> None:
    os.umask(UMASK)
    if len(sys.argv) > 1 and sys.argv[1] in DATA_GROUPS:
        from svc_cluster.cli.data.data_app import data_app

        data_app()()
    elif len(sys.argv) > 1 and sys.argv[1] in PROCESSES:
        from svc_cluster.cli.processes.process_app import process_app

        process_app()()
    elif len(sys.argv) > 1 and sys.argv[1] == BACKUP:
        from svc_cluster.cli.backup.backup_end import end_at_once
        from svc_cluster.cli.main import app

        end_at_once(app)
    else:
        from svc_cluster.cli.main import app

        app()


if __name__ == "__main__":
    main()
