"""What `svc-cluster admin` prints, and how it finds the node to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from svc_cluster._pb.cluster.v1 import admin_pb2 as pb
from svc_cluster.cli.admin import text as admin_text
from svc_cluster.cli.admin.admin_client import AdminError, given_target, local_target, plain
from svc_cluster.link.tls import PeerTls

GROUP = pb.GroupLeader(
    group_id=7, basin="my-basin", leader=2, term=3, role="follower", members=[1, 2, 3]
)


def test_a_status_says_what_keeps_the_node_from_being_ready() -> None:
    """Every line, with what failed and what is held."""
    answer = pb.StatusResponse(
        cluster_id="c",
        node_id=1,
        version="1.0",
        uptime_seconds=61.4,
        draining=True,
        checks=[pb.Check(name="formed"), pb.Check(name="registered", passed=True)],
        waits_for="node 3",
        groups=5,
        groups_led=2,
        held=[pb.HeldGroup(group_id=4, state="stopped", reason="fault")],
        held_count=3,
        storage=pb.Storage(wal_bytes=3 << 20, free_bytes=5 << 20, capacity_bytes=9 << 20),
    )
    assert admin_text.status(answer) == [
        "node 1 of c: not ready, drained",
        "release    1.0",
        "runs for   61 s",
        "groups     5, 2 led here",
        "log        3 MiB",
        "disk       5 of 9 MiB free: appends are refused",
        "failed     formed",
        "waits for  node 3",
        "held       group 4 (?) is stopped: fault",
        "held       and 2 more",
    ]


def test_tables_have_columns() -> None:
    """A leader that is not known is a dash, and so is the catalog's name."""
    unknown = pb.GroupLeader(group_id=1, term=1, role="candidate", members=[1])
    assert admin_text.leaders(pb.LeadersResponse(groups=[unknown, GROUP])) == [
        "GROUP  BASIN     LEADER  TERM  ROLE       MEMBERS",
        "1      -         -       1     candidate  1",
        "7      my-basin  2       3     follower   1,2,3",
    ]
    assert admin_text.drain(pb.DrainResponse(groups_led=3, groups_left=1, left=[GROUP])) == [
        "2 of 3 leaderships given away in 0.0 s",
        "1 are still led here:",
        "GROUP  BASIN     LEADER  TERM  ROLE      MEMBERS",
        "7      my-basin  2       3     follower  1,2,3",
    ]


def test_json_has_every_field_by_its_name_and_numbers_as_numbers() -> None:
    """Also those that are not set."""
    assert plain(pb.DrainResponse(left=[GROUP])) == {
        "groups_led": 0,
        "groups_left": 0,
        "seconds": 0.0,
        "left": [
            {
                "group_id": 7,
                "basin": "my-basin",
                "leader": 2,
                "term": 3,
                "role": "follower",
                "members": [1, 2, 3],
            }
        ],
    }
    assert plain(pb.StatusResponse())["storage"]["free_bytes"] == 0


def test_a_node_is_named_by_its_address() -> None:
    """What it listens on at every address is asked on loopback."""
    files = (Path("c"), Path("k"), Path("a"))
    tls = PeerTls(*files)
    assert given_target("10.0.0.1:9095", 3, files).tls == tls
    assert given_target("0.0.0.0:9095", None, (None,) * 3).address == "127.0.0.1:9095"
    assert given_target("[::]:9095", None, (None,) * 3).address == "[::1]:9095"
    with pytest.raises(AdminError, match="name all three"):
        given_target("10.0.0.1:9095", 3, (Path("c"), None, Path("a")))
    with pytest.raises(AdminError, match="host:port"):
        given_target("10.0.0.1", 3, files)


def test_a_node_of_a_local_cluster_is_found_in_its_directory(tmp_path: Path) -> None:
    """The first one, or the one that is named, with the administrator's certificate where the
    node speaks TLS, whatever an earlier start has left."""
    with pytest.raises(AdminError, match="not the data directory"):
        local_target(tmp_path, None)
    rows = [
        {"id": 1, "admin_rpc_port": 71, "admin_rpc_tls": False},
        {"id": 2, "admin_rpc_port": 72, "admin_rpc_tls": True},
    ]
    (tmp_path / "cluster.json").write_text(json.dumps({"nodes": rows}))
    first = local_target(tmp_path, None)
    assert (first.address, first.node_id, first.tls) == ("127.0.0.1:71", 1, None)
    with pytest.raises(AdminError, match=r"the nodes are \[1, 2\]"):
        local_target(tmp_path, 3)
    place = tmp_path / "certificates" / "administrator"
    place.mkdir(parents=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (place / name).touch()
    assert local_target(tmp_path, 1).tls is None
    second = local_target(tmp_path, 2)
    assert (second.address, second.node_id) == ("127.0.0.1:72", 2)
    assert second.tls == PeerTls(place / "tls.crt", place / "tls.key", place / "ca.crt")
