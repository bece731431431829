"""What `svc-cluster admin bootstrap` makes, and for whom."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from svc_cluster.cli.admin.authority import DAYS, Authority, AuthorityError, issue
from svc_cluster.cli.admin.bootstrap import RENEW_BEFORE, bootstrap
from svc_cluster.cli.processes.own_certificate import read_certificate, utc_now
from svc_cluster.link.tls import GATEWAY_NAME

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


def names(certificate: Path) -> list[str]:
    found = read_certificate(certificate).extensions
    alternative = found.get_extension_for_class(x509.SubjectAlternativeName).value
    return alternative.get_values_for_type(x509.DNSName)


def test_certificates_have_the_names_of_their_part_alone_for_90_days(tmp_path: Path) -> None:
    """A gateway's is for no node, a node's for no other and no gateway; none lasts longer."""
    bootstrap(tmp_path / "out", tmp_path / "ca", NODES, ["localhost"])
    place = tmp_path / "out"
    assert names(place / "gateway" / "tls.crt") == [GATEWAY_NAME]
    assert names(place / "node-2" / "tls.crt") == ["node-2.svc-cluster.internal"]
    assert names(place / "public" / "tls.crt") == ["localhost"]
    for path in place.rglob("tls.crt"):
        left = read_certificate(path).not_valid_after_utc - utc_now()
        assert datetime.timedelta(days=DAYS - 1) < left <= datetime.timedelta(days=90), path


def test_certificates_near_their_end_are_renewed_and_nothing_else_is(tmp_path: Path) -> None:
    """A day before the limit nothing changes; beyond it every certificate has a new key, of the
    same CA, and secrets stay."""
    out, ca = tmp_path / "out", tmp_path / "ca"
    bootstrap(out, ca, NODES, ["localhost"])
    first = files(tmp_path)
    due = utc_now() + datetime.timedelta(days=DAYS) - RENEW_BEFORE
    day = datetime.timedelta(days=1)
    assert bootstrap(out, ca, NODES, ["localhost"], lambda: due - day) == []
    assert files(tmp_path) == first
    made = bootstrap(out, ca, NODES, ["localhost"], lambda: due + day)
    parts = ["node-1", "node-2", "node-3", "gateway", "administrator", "public"]
    assert made == parts
    later = files(tmp_path)
    changed = {name for name in later if later[name] != first.get(name)}
    assert changed == {f"out/{part}/tls.{kind}" for part in parts for kind in ("crt", "key")}
    end = read_certificate(out / "gateway" / "tls.crt").not_valid_after_utc
    assert end - due > datetime.timedelta(days=DAYS)


def test_a_certificate_of_another_ca_is_left_alone(tmp_path: Path) -> None:
    """Whoever has put their own there renews it; one that cannot be read is said."""
    out, ca = tmp_path / "out", tmp_path / "ca"
    bootstrap(out, ca, NODES, ["localhost"])
    issue(Authority.create(tmp_path / "other", utc_now), [GATEWAY_NAME], out / "gateway", days=1)
    before = files(out / "gateway")
    assert bootstrap(out, ca, NODES, ["localhost"]) == []
    assert files(out / "gateway") == before
    (out / "node-1" / "tls.crt").write_text("nothing of the kind")
    with pytest.raises(AuthorityError, match="holds no certificate in PEM"):
        bootstrap(out, ca, NODES, ["localhost"])


class Killed(BaseException):
    """The process ends here."""


def test_a_run_that_was_broken_off_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead of each file that it puts in its place: the next run makes what is missing, and what is
    there by then is as good as of one run. Charts run it unattended."""
    replace = Path.replace
    left = 0

    def counted(path: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        return replace(path, target)

    whole = tmp_path / "whole"
    bootstrap(whole / "out", whole / "ca", NODES, ["localhost"])
    wanted = files(whole).keys()
    monkeypatch.setattr(Path, "replace", counted)
    for crash in range(len(wanted)):
        directory = tmp_path / str(crash)
        left = crash
        with pytest.raises(Killed):
            bootstrap(directory / "out", directory / "ca", NODES, ["localhost"])
        left = 1000
        bootstrap(directory / "out", directory / "ca", NODES, ["localhost"])
        found = files(directory)
        assert {name for name in found if not name.endswith(".new")} == wanted, crash
        authority = read_certificate(directory / "ca" / "ca.pem")
        for place in (directory / "out").iterdir():
            if place.is_dir():
                own = read_certificate(place / "tls.crt")
                own.verify_directly_issued_by(authority)
                key = load_pem_private_key((place / "tls.key").read_bytes(), None)
                assert key.public_key() == own.public_key(), place
                assert (place / "ca.crt").read_bytes() == found["ca/ca.pem"]
        assert bootstrap(directory / "out", directory / "ca", NODES, ["localhost"]) == []


def test_a_key_of_a_ca_is_never_made_anew(tmp_path: Path) -> None:
    """Whoever has lost the CA's certificate has it again, by the same key; what it has signed
    stays good."""
    bootstrap(tmp_path / "out", tmp_path / "ca", NODES, ["localhost"])
    key = (tmp_path / "ca" / "ca.key").read_bytes()
    (tmp_path / "ca" / "ca.pem").unlink()
    bootstrap(tmp_path / "out", tmp_path / "ca", NODES, ["localhost"])
    assert (tmp_path / "ca" / "ca.key").read_bytes() == key
    own = read_certificate(tmp_path / "out" / "node-1" / "tls.crt")
    own.verify_directly_issued_by(read_certificate(tmp_path / "ca" / "ca.pem"))
