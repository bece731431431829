"""`python -m tests.scenarios.http --rewrite`: put down anew what every conversation is answered."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.scenarios.http.conversation import rewrite

if __name__ == "__main__":
    if sys.argv[1:] != ["--rewrite"]:
        sys.exit("usage: python -m tests.scenarios.http --rewrite")
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        rewrite(path)
