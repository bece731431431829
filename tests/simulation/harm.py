"""What happens to one replica's rows behind its back: some are gone, a range of them is, as with a
lost file of the store, or a value is another one's."""

from __future__ import annotations

import random

from svc_cluster.base.ids import CATALOG_GROUP, GroupId
from svc_cluster.base.write_set import WriteSet
from svc_cluster.catalog.content import CatalogContent
from svc_cluster.model.content import Content
from svc_cluster.replica.prefixed import PrefixedReader, generation_prefix
from svc_cluster.stream.content import BasinContent
from tests.simulation.node import SimNode

KINDS = ("rows", "range", "swap", "other value", "added")


def content_of(group_id: GroupId) -> Content:
    return CatalogContent() if group_id == CATALOG_GROUP else BasinContent()


def harm(node: SimNode, group_id: GroupId, kind: str, rng: random.Random) -> str:
    """Change what the replica on a living node holds; says what was done. The content differs from
    the others' afterwards."""
    assert node.node is not None, "the node lives"
    replica = node.node.host.replica(group_id)
    assert replica is not None, "the group is here"
    generation = replica.group.generation
    reader, prefix = PrefixedReader(node.store, generation), generation_prefix(generation)
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
    node.store.write(write_set)
    return f"{kind} of group {group_id} on node {node.node_id}: {write_set.ops}"
