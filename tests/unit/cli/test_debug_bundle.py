"""What a debug bundle takes of logs."""

from __future__ import annotations

from pathlib import Path

from svc_cluster.cli.admin.debug_bundle import LOG_BYTES_MAX, Bundle

TOKEN = "svct_" + "s" * 51


def test_the_logs_of_a_bundle_have_no_secrets_in_them(tmp_path: Path) -> None:
    """Lines of an earlier release, or of a fault, may have had some. The audit log stays where it
    is."""
    (tmp_path / "node-1.log").write_text(
        f'{{"message": "there is no key x (here {TOKEN})"}}\n'
        "12:00 error refused reason='http://u:pw@h/v1?api_key=abc is'\nplain\n"
    )
    (tmp_path / "audit.log").write_text("who did what\n")
    bundle = Bundle()
    bundle.add_logs(tmp_path)
    assert bundle.parts == {
        "logs/node-1.log": b'{"message": "there is no key x (here [redacted])"}\n'
        b"12:00 error refused reason='http://[masked]@h/v1?[masked] is'\nplain\n"
    }
    assert bundle.missing == {}


def test_the_end_of_a_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    """Of a token that was cut in two nobody would see that it is one."""
    whole = b"a line\n" * (LOG_BYTES_MAX // 7)
    rest = LOG_BYTES_MAX - len(whole)
    (tmp_path / "gateway.log").write_bytes(TOKEN.encode() + b"\n" + whole)
    bundle = Bundle()
    bundle.add_logs(tmp_path)
    assert 0 < rest < 7
    assert bundle.parts == {"logs/gateway.log": whole}
