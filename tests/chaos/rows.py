"""The rows of the fault matrix that are played here, by their numbers, and where the others are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from tests.chaos import changes, faults, losses
from tests.chaos.scene import Scene

Row = Callable[[Scene], Awaitable[None]]

ROWS: Final[dict[str, Row]] = {
    "D1": faults.kill_leader,
    "D2": faults.kill_others,
    "D4": faults.lose_power,
    "D5": faults.freeze_leader,
    "D6": faults.isolate_leader,
    "D7": faults.cut_one_way,
    "D8": faults.bad_links,
    "D9": faults.slow_disk,
    "D10": faults.fail_sync,
    "D11": faults.fill_disk,
    "D15": faults.jump_clock,
    "D16": losses.restart_in_turn,
    "D17": losses.lose_directory,
    "D18": changes.change_members,
    "D19": changes.fall_behind,
    "D20": faults.kill_gateway,
    "D21": faults.cut_clients,
    "D22": faults.kill_leader_in_sessions,
    "D23": faults.slow_readers,
    "D24": faults.recreate,
    "D27": losses.freeze_beside_bulk,
    "D28": losses.lose_log,
    "D29": losses.lose_rows,
    "D33": losses.pause_and_crash,
    "D34": changes.change_while_apart,
}

NOT_HERE: Final[dict[str, str]] = {
    "D3": "python -m tests.crashpoints",
    "D12": "corruption trials of the log, offline",
    "D13": "corruption trials of the log, the store and snapshots, offline",
    "D14": "corruption trials of the store; every round here compares the state digests",
    "D25": "tests/hostile/peers/test_raft_messages.py",
    "D26": "tests/compatibility/test_mixed.py; seeds of the simulation with an older release",
    "D30": "tests/integration/test_stopped_groups.py",
    "D31": "make hostile",
    "D32": "tests/simulation/test_codec_faults.py, in every function of the codecs",
}
