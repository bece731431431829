"""How the catalog is asked for a new basin."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb


def creation_in(request: pb.Request, replication_factor: int | None) -> pb.CreateBasinRequest:
    """The part of the request that says which basin is to be made. With a `replication_factor` it
    is of an operation that an older release refuses: it would make one with another number."""
    if replication_factor is None:
        return request.create_basin
    request.create_placed_basin.replication_factor = replication_factor
    return request.create_placed_basin.basin
