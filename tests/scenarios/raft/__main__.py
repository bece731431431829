"""`python -m tests.scenarios.raft --rewrite`: put down anew what every conversation prints."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.scenarios.raft.conversation import rewrite

if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit("usage: python -m tests.scenarios.raft --rewrite")
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        rewrite(path)
