"""Between the messages of the link and what handlers are given."""

from __future__ import annotations

from svc_cluster._pb.cluster.v1 import replica_pb2 as pb
from svc_cluster.base.ids import TimestampMs
from svc_cluster.codec import config_pb
from svc_cluster.gateway.cluster.backend import BasinInfo, StreamInfo
from svc_cluster.model.location import Location
from svc_cluster.model.stream_config import NewStream


def basin_info(info: pb.BasinInfo) -> BasinInfo:
    return BasinInfo(
        name=info.name,
        created_at_ms=TimestampMs(info.created_at_ms),
        deleted_at_ms=(TimestampMs(info.deleted_at_ms) if info.HasField("deleted_at_ms") else None),
        location=info.location or None,
    )


def location(message: pb.Location) -> Location:
    return Location(message.name, message.is_private)


def put_new_stream(
    into: pb.CreateStreamRequest | pb.EnsureStreamRequest | pb.AutoCreateRequest, new: NewStream
) -> None:
    into.storage_class_default = new.storage_class_default
    if new.config is not None:
        config_pb.put_partial(into.config, new.config)


def stream_info(info: pb.StreamInfo) -> StreamInfo:
    return StreamInfo(
        name=info.name,
        created_at_ms=TimestampMs(info.created_at_ms),
        deleted_at_ms=(TimestampMs(info.deleted_at_ms) if info.HasField("deleted_at_ms") else None),
        cipher=info.cipher if info.HasField("cipher") else None,
    )
