"""How long a turn of an event loop may be where a test measures it."""

from __future__ import annotations

import os
from typing import Final

from svc_cluster.cli.processes.loop_turns import TURN_SECONDS_MAX

SLACK: Final = float(os.environ.get("TURNS_SLACK", "1"))
"""How many times the bound is allowed. `make test` says 2, because the same turn takes up to half
as long again of the processor beside another worker of the suite. By itself it is 1."""

TURN_BOUND_SECONDS: Final = SLACK * TURN_SECONDS_MAX
