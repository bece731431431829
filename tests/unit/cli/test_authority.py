"""The built-in CA: what its certificates say, and what it refuses."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from svc_cluster.base.ids import NodeId
from svc_cluster.cli.admin.authority import Authority, AuthorityError, certificate_names, issue
from svc_cluster.link.handshake import HandshakeError, Identity
from svc_cluster.link.tls import CertificateError, PeerTls, check_certificate

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def authority(directory: Path) -> Authority:
    return Authority.create(directory, lambda: NOW)


def tls(place: Path) -> PeerTls:
    return PeerTls(place / "tls.crt", place / "tls.key", place / "ca.crt")


def test_a_certificate_carries_its_names_for_both_ends_and_its_days(tmp_path: Path) -> None:
    """Names as DNS and IP entries, the CA as its issuer, the days asked for, a private key that
    nobody else reads."""
    ca = authority(tmp_path / "ca")
    names = certificate_names([3], gateway=True, names=["db.example", "10.0.0.1", "::1"])
    issue(ca, names, tmp_path / "out", days=30)
    certificate = x509.load_pem_x509_certificate((tmp_path / "out" / "tls.crt").read_bytes())
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternative.get_values_for_type(x509.DNSName) == [
        "node-3.svc-cluster.internal",
        "gateway.svc-cluster.internal",
        "db.example",
    ]
    assert [str(a) for a in alternative.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]
    assert certificate.not_valid_after_utc == NOW + datetime.timedelta(days=30)
    assert certificate.not_valid_before_utc < NOW
    issuer = x509.load_pem_x509_certificate((tmp_path / "ca" / "ca.pem").read_bytes())
    certificate.verify_directly_issued_by(issuer)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {use.dotted_string for use in usage} == {"1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"}
    for key in (tmp_path / "ca" / "ca.key", tmp_path / "out" / "tls.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    tls(tmp_path / "out").read()


def test_what_cannot_be_made_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A second CA in one place, no CA, no name, names that cannot stand, days out of range."""
    ca = authority(tmp_path / "ca")
    with pytest.raises(AuthorityError, match="holds a CA already"):
        authority(tmp_path / "ca")
    with pytest.raises(AuthorityError, match="make one there first"):
        Authority(tmp_path / "empty", lambda: NOW)
    for names, days, says in (
        ([], 1, "at least one name"),
        (["a"], 0, "use 1 to 3650"),
        (["a"], 3651, "use 1 to 3650"),
        (["bücher.example"], 1, "cannot stand"),
        ([""], 1, "cannot stand"),
    ):
        with pytest.raises(AuthorityError, match=says):
            issue(ca, names, tmp_path / "out", days=days)
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthorityError, match="cannot be written"):
        issue(ca, ["a"], tmp_path / "file" / "out")


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """A missing file, text that is no certificate, another's key, a key behind a password."""
    ca = authority(tmp_path / "ca")
    issue(ca, ["a"], tmp_path / "a")
    issue(ca, ["b"], tmp_path / "b")
    good = tls(tmp_path / "a")
    good.read()
    text = tmp_path / "text"
    text.write_text("no PEM")
    locked = tmp_path / "locked"
    key = serialization.load_pem_private_key(good.key.read_bytes(), password=None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for bad, says in (
        (PeerTls(tmp_path / "none", good.key, good.authority), "cannot be read"),
        (PeerTls(text, good.key, good.authority), "not a certificate and its key"),
        (PeerTls(good.certificate, tmp_path / "b" / "tls.key", good.authority), "not a cert"),
        (PeerTls(good.certificate, locked, good.authority), "the key is encrypted"),
        (PeerTls(good.certificate, good.key, text), "not usable as a CA"),
        (PeerTls(good.certificate, good.key, tmp_path / "none"), "cannot be read"),
    ):
        with pytest.raises(CertificateError, match=says):
            bad.read()


def test_a_caller_is_who_its_certificate_names() -> None:
    """A node's certificate is good for that node alone, a gateway's for gateways, and neither for
    an administrator, whose own is good for nothing else."""

    def caller(role: str, node: int) -> Identity:
        return Identity("c", role, NodeId(node), "i")

    two = [b"node-2.svc-cluster.internal"]
    check_certificate(caller("node", 2), two)
    check_certificate(caller("gateway", 0), [*two, b"gateway.svc-cluster.internal"])
    administrator = [b"administrator.svc-cluster.internal"]
    check_certificate(caller("administrator", 0), administrator)
    for who, names in (
        (caller("node", 1), two),
        (caller("node", 20), two),
        (caller("gateway", 0), two),
        (caller("node", 2), [b"gateway.svc-cluster.internal", b"svc-cluster.internal"]),
        (caller("node", 2), []),
        (caller("administrator", 0), [*two, b"gateway.svc-cluster.internal"]),
        (caller("gateway", 0), administrator),
        (caller("node", 2), administrator),
        (caller("node", 2), [b"NODE-2.svc-cluster.internal"]),
        (caller("node", 2), [b"node-2.svc-cluster.internal."]),
        (caller("node", 2), [b"*.svc-cluster.internal"]),
        (caller("node", 2), [b"node-2.svc-cluster.internal\0.elsewhere"]),
        (caller("Node", 2), two),
        (caller("stranger", 0), [*two, *administrator, b"gateway.svc-cluster.internal"]),
    ):
        with pytest.raises(HandshakeError, match="certificate"):
            check_certificate(who, names)
