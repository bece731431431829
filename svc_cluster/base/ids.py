"""Integers with a meaning. mypy then refuses to compare a sequence number with a log index."""

from __future__ import annotations

from typing import Final, NewType

NodeId = NewType("NodeId", int)
GroupId = NewType("GroupId", int)
Generation = NewType("Generation", int)
"""Number of one copy of a group's state on one node; it prefixes every key of that copy."""

ReplicaId = NewType("ReplicaId", int)
"""Number of one placement of a group on a node, unique in the cluster and never used again."""

Term = NewType("Term", int)
LogIndex = NewType("LogIndex", int)
"""1-based place of an entry in a Raft log; 0 is the place before the first entry."""

StreamId = NewType("StreamId", int)
"""Incarnation of a stream within its group: a name that is used again gets another one."""

SeqNum = NewType("SeqNum", int)
TimestampMs = NewType("TimestampMs", int)
"""Milliseconds since the Unix epoch."""

CATALOG_GROUP: Final = GroupId(1)
"""The catalog's group; basins take their ids from a catalog counter that starts behind it."""
