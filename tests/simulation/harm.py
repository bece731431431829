"""What happens to one replica's rows behind its back: some are gone, a range of them is, as with a
lost file of the store, or a value is another one's."""

from __future__ import annotations

import random

from svc_cluster.base.ids import GroupId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.replica.prefixed import PrefixedReader, generation_prefix
from svc_cluster.replica.scrub_reader import content_of
from tests.simulation.node import SimNode

BATCH = b"\x04"
KINDS = ("rows", "range", "swap", "other value", "added")


SEEN_KINDS = ("rows", "range", "swap", "other value")


def harm_batches(node: SimNode, group_id: GroupId, rng: random.Random) -> str | None:
    """Harm records of one stream, in a way that whoever reads them sees: some batches are gone, all
    of a range are, or one has another's value. Says what was done; None: there is too little."""
    assert node.node is not None, "the node lives"
    replica = node.node.host.replica(group_id)
    if replica is None:
        return None
    generation = replica.group.generation
    reader, prefix = PrefixedReader(node.state, generation), generation_prefix(generation)
    rows = (each.row for each in content_of(group_id).visits(reader, b""))
    found: dict[bytes, list[bytes]] = {}
    for row in rows:
        if row is not None and row.key[:1] == BATCH:
            found.setdefault(row.key[:-8], []).append(row.key)
    streams = [batches for batches in found.values() if len(batches) > 1]
    if not streams:
        return None
    batches, kind, write_set = rng.choice(streams), rng.choice(SEEN_KINDS), WriteSet()
    if kind == "rows":
        for key in rng.sample(batches, rng.randint(1, min(3, len(batches)))):
            write_set.delete(prefix + key)
    elif kind == "range":
        first, last = sorted(rng.sample(range(len(batches)), 2))
        write_set.delete_range(prefix + batches[first], prefix + batches[last])
    else:
        one, other = rng.sample(batches, 2)
        values = reader.get(one), reader.get(other)
        assert values[0] is not None and values[1] is not None, "both were just read"
        write_set.put(prefix + one, values[1])
        if kind == "swap":
            write_set.put(prefix + other, values[0])
    share, node.store.stall_share = node.store.stall_share, 0.0  # what decays asks no store
    node.state.write(write_set)
    node.store.stall_share = share
    return f"{kind} of group {group_id} on node {node.node_id}: {[op[0] for op in write_set.ops]}"


def harm(node: SimNode, group_id: GroupId, kind: str, rng: random.Random) -> str:
    """Change what the replica on a living node holds; says what was done. The content differs from
    the others' afterwards."""
    assert node.node is not None, "the node lives"
    replica = node.node.host.replica(group_id)
    assert replica is not None, "the group is here"
    generation = replica.group.generation
    reader, prefix = PrefixedReader(node.state, generation), generation_prefix(generation)
    rows = [each.row for each in content_of(group_id).visits(reader, b"") if each.row is not None]
    keys = [row.key for row in rows]
    place = rng.randrange(len(keys))
    write_set = WriteSet()
    if kind == "rows":
        for key in rng.sample(keys, rng.randint(1, min(3, len(keys)))):
            write_set.delete(prefix + key)
    elif kind == "range":
        end = rng.choice([*keys[place + 1 :], b"\xff"])
        write_set.delete_range(prefix + keys[place], prefix + end)
    elif kind == "added":
        write_set.put(prefix + keys[place] + b"\0", b"\x90")
    else:
        pairs = [
            (one, other)
            for one in keys
            for other in keys
            if one[:1] == other[:1] and reader.get(one) != reader.get(other)
        ]
        one, other = rng.choice(pairs) if pairs else (keys[place], keys[place - 1])
        values = reader.get(one), reader.get(other)
        assert values[0] is not None
        assert values[1] is not None
        write_set.put(prefix + one, values[1])
        if kind == "swap":
            write_set.put(prefix + other, values[0])
    share, node.store.stall_share = node.store.stall_share, 0.0  # what decays asks no store
    node.state.write(write_set)
    node.store.stall_share = share
    return f"{kind} of group {group_id} on node {node.node_id}: {write_set.ops}"
