"""`python -m svc_cluster`, and the `svc-cluster` command."""

from __future__ import annotations

from svc_cluster.cli.main import app


def main() -> None:
    app()


if __name__ == "__main__":
    main()
