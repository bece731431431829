"""The ratchet of branch coverage: what it counts, refuses and keeps."""

from __future__ import annotations

from typing import Any

from tests.branch_coverage import ROOMS, Share, fallen, kept_shares, raised, shares, table


def report(*files: tuple[str, int, int]) -> dict[str, Any]:
    return {
        "files": {
            name: {"summary": {"covered_branches": taken, "num_branches": branches}}
            for name, taken, branches in files
        }
    }


def test_a_room_s_share_is_that_of_its_files() -> None:
    """The branches of all files below the folder, and of no folder that is called alike."""
    found = shares(
        report(
            ("svc_cluster/raft/core.py", 3, 4),
            ("svc_cluster/raft/gate.py", 5, 6),
            ("svc_cluster/storage/wal/wal_frame.py", 1, 2),
            ("svc_cluster/storage/disk.py", 0, 50),
            ("svc_cluster/linking/other.py", 0, 50),
        )
    )
    assert (found["raft"], found["storage/wal"]) == (Share(8, 10), Share(1, 2))
    assert found["link"].percent == 100.0, "what has no branch has none that is not taken"


def test_what_falls_is_refused_and_what_is_better_is_kept_by_the_flag_alone() -> None:
    """At what is kept, below it, and for a room of which nothing is kept."""
    kept = {"raft": 80.0, "link": 50.0}
    assert fallen({"raft": Share(80, 100), "link": Share(60, 100)}, kept) == []
    assert fallen({"raft": Share(799, 1000)}, kept) == [
        "raft: 79.9 % of its branches are taken, 80.0 % were: test what is new"
    ]
    assert fallen({"codec": Share(9, 10)}, kept) == [
        "codec: nothing is kept of it, --raise keeps 90.0 %"
    ]
    found = {"raft": Share(70, 100), "link": Share(60, 100), "codec": Share(9, 10)}
    assert raised(found, kept) == {"raft": 80.0, "link": 59.5, "codec": 89.5}


def test_the_table_names_each_room_with_what_is_kept() -> None:
    text = table({"raft": Share(799, 1000), "link": Share(1, 2)}, {"raft": 80.0})
    assert text.splitlines()[1:] == [
        "raft             1,000     799   79.9 %   80.0 %",
        "link                 2       1   50.0 %        -",
    ]


def test_something_is_kept_of_every_room_that_decides() -> None:
    """A room without a number would be free to fall."""
    assert set(kept_shares()) == set(ROOMS)
    assert all(50.0 <= least <= 100.0 for least in kept_shares().values())
