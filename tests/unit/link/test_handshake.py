"""Who may talk inside the cluster."""

from __future__ import annotations

import pytest

from svc_cluster.base.ids import NodeId
from svc_cluster.link.handshake import HandshakeError, Identity, check_metadata, make_metadata

SECRET = b"s" * 32
NODE = Identity("cluster-a", "node", NodeId(3), "ab" * 16)


def test_a_caller_with_the_secret_is_who_it_says() -> None:
    """The identity survives the round trip."""
    metadata = dict(make_metadata(SECRET, NODE, "nonce"))
    assert check_metadata(SECRET, "cluster-a", metadata) == NODE


def test_the_secret_itself_is_not_sent() -> None:
    """Only a proof of it travels."""
    values = [value for _, value in make_metadata(b"top-secret-value-0123456789abcdef", NODE, "n")]
    assert not any("top-secret" in value for value in values)


@pytest.mark.parametrize("missing", [name for name, _ in make_metadata(SECRET, NODE, "n")])
def test_a_caller_that_leaves_something_out_is_refused(missing: str) -> None:
    """Each fact is under the proof."""
    metadata = dict(make_metadata(SECRET, NODE, "nonce"))
    del metadata[missing]
    with pytest.raises(HandshakeError):
        check_metadata(SECRET, "cluster-a", metadata)


@pytest.mark.parametrize("changed", ["svc-node", "svc-role", "svc-incarnation", "svc-cluster"])
def test_a_caller_that_changes_a_fact_is_refused(changed: str) -> None:
    """A proof belongs to the facts it was made for."""
    metadata = dict(make_metadata(SECRET, NODE, "nonce")) | {changed: "1"}
    with pytest.raises(HandshakeError):
        check_metadata(SECRET, "cluster-a", metadata)


def test_another_secret_or_another_cluster_is_refused() -> None:
    """Both must be this cluster's."""
    with pytest.raises(HandshakeError, match="secret"):
        check_metadata(b"t" * 32, "cluster-a", dict(make_metadata(SECRET, NODE, "nonce")))
    with pytest.raises(HandshakeError, match="another cluster"):
        check_metadata(SECRET, "cluster-b", dict(make_metadata(SECRET, NODE, "nonce")))
