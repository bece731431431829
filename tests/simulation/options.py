"""What a seed draws before it starts: the cluster's shape, its settings and its faults."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field, fields

from svc_cluster.raft.raft_settings import APPEND_ENTRIES_MAX, IN_FLIGHT_ENTRIES_MAX
from svc_cluster.replica.memory_budget import NODE_BYTES_MAX
from tests.simulation.knobs import Constants
from tests.simulation.workload import WorkloadOptions

FAULTS = (
    "crash_leader",
    "crash_any",
    "crash_all",
    "crash_most",
    "partition",
    "isolate_leader",
    "one_way",
    "clog",
    "slow_disk",
    "reset",
    "gateway_crash",
    "wall_step",
    "disk_error",
    "store_stall",
    "disk_full",
)

MIB = 1024 * 1024

SMALL_ENTRY_BYTES = 64 * 1024
"""With this target an entry, and with it a segment, can be small: the largest batch of any
workload is about as long."""


AGAIN_S = 5.0
"""Between two replacements of one node, where disks are lost."""


@dataclass(slots=True)
class Options:
    """What a seed has drawn. Printed when it fails."""

    nodes: int = 3
    gateways: int = 2
    http: bool = True
    """Clients speak HTTP messages; otherwise they call the gateway's backend."""
    basins: int = 1
    streams: int = 2
    tick_seconds: float = 0.02
    datagrams: bool = False
    flush_seconds: float = 5.0
    log_retention_seconds: float = 60.0
    """Short: a replica that was away for a while needs a snapshot."""
    memory_bytes_max: int = NODE_BYTES_MAX
    log_retention_bytes: int = 64 * 1024 * 1024
    segment_bytes: int = 4 * 1024 * 1024
    payload_bytes_min: int = 0
    """Entries from this size on go into payload files, which are small; 0: none do."""
    deadline_seconds: float = 4.0
    """How long a gateway tries."""
    in_flight_bytes_max: int = 8 * 1024 * 1024
    committed_bytes_max: int = 4 * 1024 * 1024
    append_entries_max: int = APPEND_ENTRIES_MAX
    in_flight_entries_max: int = IN_FLIGHT_ENTRIES_MAX
    constants: Constants = ()
    """Constants of the product that are others than usual."""
    slow_disks: bool = False
    faults: tuple[str, ...] = FAULTS
    fault_pause_s: float = 4.0
    replace_lost_nodes: bool = False
    """Nodes that come up empty are given their places unasked."""
    loses_disks: bool = False
    """Disks are lost for good, one at a time."""
    balance_seconds: float = 0.0
    """How often the catalog's leader looks whether leads are uneven; 0: never."""
    scrub_seconds: float = 5.0
    """From one round of the scrub to the next; 0: no node takes part."""
    bytes_per_s: tuple[float, float] | None = None
    """What a link carries while there are faults, each way drawn between these; None: anything."""
    latency_max_s: float = 0.0
    """How much longer than usual a link takes, at most, each way drawn."""
    harm: bool = False
    """Rows of one replica change behind its back, now and then."""
    rot: bool = False
    """Bits at rest change and writes go astray, on one node at a time. Never drawn."""
    rest_seconds: float = 0.0
    """How long nothing happens to a basin before it rests; 0: none ever does."""
    drains: bool = False
    """Nodes are drained and let go on: leads leave them, and replicas where there is room."""
    moves: bool = False
    """The first basin moves from node to node, and changes are given up on the way."""
    catalog_moves: bool = False
    """Who votes in the catalog changes, and changes of that are given up on the way."""
    older_nodes: int = 0
    """So many of the first nodes are of a release that knows no request tokens. Each becomes a
    newer one at a moment of its own while there are faults."""
    safety_s: float = 60.0
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)

    @staticmethod
    def draw(rng: random.Random) -> Options:
        drawn = Options.draw_unchanging(rng)
        drawn.older_nodes = rng.choice((0, 0, 0, 1, 2))
        drawn.moves = rng.random() < 0.7
        if drawn.moves:
            drawn.nodes = max(drawn.nodes, rng.choice((4, 5)))
        drawn.drains = rng.random() < 0.4
        drawn.loses_disks = drawn.replace_lost_nodes = rng.random() < 0.3
        drawn.balance_seconds = rng.choice((0.0, 0.0, 1.0, 5.0))
        if drawn.loses_disks:
            drawn.constants += (("lost_nodes.AGAIN_SECONDS", AGAIN_S),)
        # a lost disk of a node without a vote is not replaced, and drained nodes lose theirs
        drawn.catalog_moves = rng.random() < 0.4 and drawn.nodes > 3 and not drawn.loses_disks
        drawn.drains = drawn.drains and not drawn.loses_disks
        return drawn

    @staticmethod
    def draw_unchanging(rng: random.Random) -> Options:
        """What seeds drew before members and releases changed in any: those that were kept until
        then are played with it."""
        some = tuple(fault for fault in FAULTS if rng.random() < 0.5)
        drawn = Options(
            nodes=rng.choice((3, 3, 3, 4, 5)),
            gateways=rng.randint(1, 3),
            basins=rng.randint(1, 2),
            streams=rng.randint(1, 3),
            tick_seconds=rng.choice((0.02, 0.05)),
            datagrams=rng.random() < 0.3,
            flush_seconds=rng.choice((0.5, 2.0, 5.0)),
            slow_disks=rng.random() < 0.2,
            faults=some or ("crash_any",),
            fault_pause_s=rng.choice((1.5, 3.0, 6.0)),
            workload=WorkloadOptions.draw(rng),
            http=rng.random() < 0.6,
            log_retention_seconds=rng.choice((0.5, 2.0, 60.0)),
        )
        drawn._draw_odd(rng)
        if rng.random() < 0.4:
            drawn.bytes_per_s = (MIB / 4, 16 * MIB)
            drawn.latency_max_s = rng.choice((0.0, 0.005, 0.02))
        drawn.harm = rng.random() < 0.4
        if rng.random() < 0.2:
            drawn.append_entries_max = rng.choice((2, 5))
            drawn.in_flight_entries_max = rng.choice((1, 8))
            pairs = rng.choice((1, 7))
            drawn.constants += tuple(
                (f"{module}.TURN_PAIRS_MAX", pairs) for module in ("snapshot", "snapshot_stream")
            )
        if rng.random() < 0.3:
            # fewer than the groups of a node, which are the basins' and the catalog's
            visits = min(rng.choice((1, 2)), drawn.basins)
            drawn.constants += (("group_walks.GROUPS_PER_TURN", visits),)
        drawn.payload_bytes_min = rng.choice((0, 64, 64, 1_000))
        drawn.rest_seconds = rng.choice((0.0, 0.05, 0.5, 2.0))
        return drawn

    def _draw_odd(self, rng: random.Random) -> None:
        """In every second seed some settings are tiny or odd, each with its own chance."""
        if rng.random() < 0.5:
            return

        def odd() -> bool:
            return rng.random() < 0.4

        constants: dict[str, float] = {}
        if odd():
            self.segment_bytes = rng.choice((256 * 1024, 1024 * 1024))
            constants["proposer.ENTRY_BYTES_TARGET"] = SMALL_ENTRY_BYTES
        if odd():
            constants["proposer.ENTRY_BYTES_TARGET"] = rng.choice((1, 1_000, SMALL_ENTRY_BYTES))
        if odd():
            constants["proposer.PIPELINE_BYTES"] = rng.choice((1, 2_000))
        if odd():
            constants["proposer.QUEUE_REQUESTS_MAX"] = rng.choice((1, 2, 8))
        if odd():
            constants["basin.ENTRIES_IN_FLIGHT_MAX"] = rng.choice((1, 2, 16))
        if odd():
            constants["snapshot_stream.CHUNK_BYTES"] = rng.choice((1, 500, 20_000))
        if odd():
            constants["group_turns.COMMANDS_PER_TURN"] = rng.choice((1, 3))
        if odd():
            constants["keeper.PURGE_SECONDS"] = rng.choice((0.0, 1.0))
        if odd():
            constants["read.WAIT_SECONDS_MAX"] = rng.choice((0.02, 0.5))
        if odd():
            constants["scrub.CHUNK_BYTES_MAX"] = rng.choice((1, 700, 5_000))
        if odd():
            constants["scrub_reader.SLICE_BYTES"] = rng.choice((1, 3_000))
        if odd():
            self.flush_seconds = rng.choice((0.05, 20.0))
        if odd():
            self.tick_seconds = rng.choice((0.01, 0.1))
        if odd():
            self.deadline_seconds = rng.uniform(0.5, 4.0)
        if odd():
            self.log_retention_bytes = rng.choice((1, 10_000))
        if odd():
            self.in_flight_bytes_max = rng.choice((1, 5_000, 100_000))
        if odd():
            self.committed_bytes_max = rng.choice((1, 5_000))
        self.constants = tuple(sorted(constants.items()))

    def __str__(self) -> str:
        parts = [
            f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "workload"
        ]
        parts += [f"{name}={value!r}" for name, value in asdict(self.workload).items()]
        return " ".join(parts)
