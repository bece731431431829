"""Entries of the catalog that this release does not know, and those that no release has."""

from __future__ import annotations

import pytest

from svc_cluster._pb.cluster.v1 import access_pb2
from svc_cluster._pb.cluster.v1 import catalog_entry_pb2 as pb
from svc_cluster.base.ids import GroupId
from svc_cluster.catalog.catalog_commands import RemoveBasin
from svc_cluster.codec.catalog_entry import (
    CatalogEntryFormatError,
    decode_catalog_entry,
    encode_catalog_entry,
)
from svc_cluster.codec.entry_version import CATALOG_KINDS, UnknownEntryError


def _raw(command: pb.CatalogCommand) -> bytes:
    return b"\x09\x81" + pb.CatalogEntry(commands=[command]).SerializeToString()


@pytest.mark.parametrize(
    "payload",
    [
        b"\x09\x82",
        b"\x09\xff" + bytes(3),
        _raw(pb.CatalogCommand.FromString(bytes.fromhex("fa0600"))),
        _raw(
            pb.CatalogCommand(
                issue_token=pb.IssueToken(
                    token=access_pb2.AccessToken(
                        scope=access_pb2.Scope(groups=[False] * 6, ops=["an-operation-to-come"])
                    )
                )
            )
        ),
    ],
)
def test_what_a_newer_release_may_have_written_is_unknown(payload: bytes) -> None:
    """Versions to come, kinds of commands, operations of a token."""
    with pytest.raises(UnknownEntryError):
        decode_catalog_entry(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"\x09", b"\x09\x01", b"\x09\x80", b"\x09\x81\xff", _raw(pb.CatalogCommand())]
)
def test_what_no_release_has_written_is_refused(payload: bytes) -> None:
    """Wrong type, a basin's version, broken bytes, no command at all."""
    with pytest.raises(CatalogEntryFormatError):
        decode_catalog_entry(payload)


def test_a_replica_of_an_older_release_knows_fewer_kinds() -> None:
    """The kind is named."""
    payload = encode_catalog_entry([RemoveBasin(GroupId(7))])
    assert decode_catalog_entry(payload) == [RemoveBasin(GroupId(7))]
    with pytest.raises(UnknownEntryError, match="remove_basin"):
        decode_catalog_entry(payload, CATALOG_KINDS - {"remove_basin"})
