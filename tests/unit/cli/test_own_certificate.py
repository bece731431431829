"""The look at one's own certificate: what others would refuse is found, and when it expires."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from svc_cluster.base.metrics import Metrics
from svc_cluster.cli.admin.authority import Authority, issue
from svc_cluster.cli.processes.own_certificate import (
    check_peer_certificate,
    check_validity,
    expiry_reader,
    read_certificate,
    show_expiry,
    utc_now,
)
from svc_cluster.link.tls import CertificateError, PeerTls

NAME = "node-1.svc-cluster.internal"
DAY = datetime.timedelta(days=1)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "ca", utc_now)


def issued(ca: Authority, place: Path, names: list[str], days: int = 10) -> PeerTls:
    issue(ca, names, place, days=days)
    return PeerTls(place / "tls.crt", place / "tls.key", place / "ca.crt")


def test_a_good_certificate_is_taken(tmp_path: Path, ca: Authority) -> None:
    """Also one that is for several, and one with both CAs of a change beside it."""
    check_peer_certificate(issued(ca, tmp_path / "a", [NAME]), NAME, utc_now())
    both = issued(ca, tmp_path / "b", ["node-2.svc-cluster.internal", NAME])
    other = Authority.create(tmp_path / "other", utc_now)
    both.authority.write_bytes(
        other.certificate_path.read_bytes() + ca.certificate_path.read_bytes()
    )
    check_peer_certificate(both, NAME, utc_now())


def test_validity_is_a_matter_of_the_time_that_is_given(tmp_path: Path, ca: Authority) -> None:
    """Before, within and after."""
    path = issued(ca, tmp_path / "a", [NAME]).certificate
    check_validity(path, utc_now() + 9 * DAY)
    with pytest.raises(CertificateError, match=r"expired at .*: renew it"):
        check_validity(path, utc_now() + 11 * DAY)
    with pytest.raises(CertificateError, match=r"not valid before .*set the clock"):
        check_validity(path, utc_now() - DAY)


def test_what_others_would_refuse_is_refused(tmp_path: Path, ca: Authority) -> None:
    """A certificate for somebody else, without names, of another CA, and no certificate at all."""
    wrong = issued(ca, tmp_path / "a", ["gateway.svc-cluster.internal"])
    with pytest.raises(CertificateError, match=r"is for gateway\.svc-cluster\.internal, not for"):
        check_peer_certificate(wrong, NAME, utc_now())
    nameless = issued(ca, tmp_path / "b", ["10.0.0.1"])
    with pytest.raises(CertificateError, match="is for no name"):
        check_peer_certificate(nameless, NAME, utc_now())
    foreign = issued(ca, tmp_path / "c", [NAME])
    foreign.authority.write_bytes(
        Authority.create(tmp_path / "other", utc_now).certificate_path.read_bytes()
    )
    with pytest.raises(CertificateError, match="the cluster's CA"):
        check_peer_certificate(foreign, NAME, utc_now())
    (tmp_path / "text").write_text("hello")
    with pytest.raises(CertificateError, match="no certificate"):
        read_certificate(tmp_path / "text")


def test_the_expiry_follows_the_file(tmp_path: Path, ca: Authority) -> None:
    """A renewed certificate shows at the next look; files that cannot be used leave what was."""
    tls = issued(ca, tmp_path / "a", [NAME], days=10)
    read = expiry_reader(tls.certificate)
    first = read()
    assert abs(first - (utc_now() + 10 * DAY).timestamp()) < 120
    issued(ca, tmp_path / "a", [NAME], days=20)
    assert read() == pytest.approx(first + 10 * DAY.total_seconds(), abs=120)
    renewed = read()
    tls.certificate.write_text("half a certificate")
    assert read() == renewed
    tls.certificate.unlink()
    assert read() == renewed
    assert expiry_reader(tmp_path / "none")() == 0.0


def test_the_metric_tells_it(tmp_path: Path, ca: Authority) -> None:
    """By listener, in seconds since 1970."""
    metrics = Metrics()
    path = issued(ca, tmp_path / "a", [NAME]).certificate
    show_expiry(metrics, "peer", path)
    value = metrics.registry.get_sample_value(
        "svc_tls_cert_expiry_timestamp_seconds", {"listener": "peer"}
    )
    assert value == read_certificate(path).not_valid_after_utc.timestamp()
