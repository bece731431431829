"""What `svc-cluster admin bootstrap` makes, and for whom."""

from __future__ import annotations

from pathlib import Path

from svc_cluster.cli.bootstrap import bootstrap

NODES = (1, 2, 3)


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_each_process_gets_what_it_needs_and_nothing_of_the_others(tmp_path: Path) -> None:
    """Its own certificate and key, the CA's certificate, the cluster's secret, and the root token
    only where it is a node; an administrator gets neither; the CA's key lies in the CA's
    directory alone."""
    bootstrap(tmp_path / "out", tmp_path / "ca", NODES, ["localhost"])
    own = {"tls.crt", "tls.key", "ca.crt"}
    wanted = {f"node-{node}": own | {"cluster.secret", "root-token"} for node in NODES}
    wanted |= {"gateway": own | {"cluster.secret"}, "administrator": own, "public": own}
    for name, expected in wanted.items():
        assert files(tmp_path / "out" / name).keys() == expected
    everything = files(tmp_path)
    keys = [data for name, data in everything.items() if name.endswith(".key")]
    assert len(set(keys)) == len(keys) == len(wanted) + 1
    authority = everything["ca/ca.key"]
    assert [name for name, data in everything.items() if data == authority] == ["ca/ca.key"]
    for path in tmp_path.rglob("*"):
        if path.suffix == ".key" or path.name in ("cluster.secret", "root-token"):
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_second_run_changes_nothing_and_adds_what_is_missing(tmp_path: Path) -> None:
    """So that it may run before every start; more nodes get theirs from the same CA."""
    bootstrap(tmp_path / "out", tmp_path / "ca", NODES[:1], ["localhost"])
    first = files(tmp_path)
    assert bootstrap(tmp_path / "out", tmp_path / "ca", NODES[:1], ["localhost"]) == []
    assert files(tmp_path) == first
    assert bootstrap(tmp_path / "out", tmp_path / "ca", NODES, ["localhost"]) == [
        "node-2",
        "node-3",
    ]
    later = files(tmp_path)
    assert first.items() <= later.items()
    assert later["out/node-3/root-token"] == first["out/root-token"]
