"""A gateway of several processes whose parent waits for a silent one for SILENCE_SECONDS alone.
`python -m tests.integration.impatient_gateway gateway` takes what `svc-cluster gateway` takes."""

from __future__ import annotations

import asyncio
from typing import Final
from unittest.mock import patch

from svc_cluster.__main__ import main
from svc_cluster.cli.processes import gateway_group
from svc_cluster.settings import GatewaySettings

SILENCE_SECONDS: Final = 3.0

_run_group: Final = gateway_group.run_group


async def _impatient(settings: GatewaySettings, stop: asyncio.Event) -> int:
    return await _run_group(settings, stop, silence_seconds=SILENCE_SECONDS)


if __name__ == "__main__":
    # the processes that it starts are this program too, and have no processes of their own
    with patch.object(gateway_group, "run_group", _impatient):
        main()
