"""The audit log's file: whole lines, shared, rotated, and what a full disk does to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from svc_cluster.base.audit_chain import read_head
from svc_cluster.base.audit_trail import AuditTrail, LogSink
from svc_cluster.base.log import redacted
from svc_cluster.cli.admin.audit_verify import verify
from svc_cluster.cli.processes.audit_file import AuditFile, audit_sink
from svc_cluster.model.access_secret import secret_text
from svc_cluster.settings_errors import SettingsError


def lines(path: Path) -> list[object]:
    """Without what chains them, which audit verify looks at."""
    found = [json.loads(line) for line in path.read_text().splitlines() if line]
    assert verify([path]).findings == []
    return [{k: v for k, v in line.items() if k != "chain"} for line in found]


def test_lines_are_appended_and_only_the_user_may_read_them(tmp_path: Path) -> None:
    """What was there stays, whatever is in a name is one line, and the file is nobody else's."""
    path = tmp_path / "audit.log"
    for name in ("a", 'b\n{"x":1}\r\u2028\0'):
        log = AuditFile(path)
        log.write({"stream": name, "code": None})
        log.close()
    for each in (path, tmp_path / "audit.log.chain"):
        assert each.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().count(b"\n") == 2
    assert lines(path) == [
        {"stream": "a", "code": None},
        {"stream": 'b\n{"x":1}\r\u2028\0', "code": None},
    ]


def test_several_processes_share_a_file(tmp_path: Path) -> None:
    """Lines of two writers are whole, in the order of the writes."""
    path = tmp_path / "audit.log"
    one, other = AuditFile(path), AuditFile(path)
    for number in range(200):
        (one, other)[number % 2].write({"number": number, "filling": "x" * number * 10})
    assert [line["number"] for line in lines(path)] == list(range(200))  # type: ignore[index]
    assert verify([path]).last == read_head((tmp_path / "audit.log.chain").read_bytes())
    one.close()
    other.close()


def test_after_rotation_a_new_file_is_written(tmp_path: Path) -> None:
    """Until it is told, the process writes to the file that was moved; then to a new one. Where
    that cannot be made it stays with the old one."""
    path, moved = tmp_path / "audit.log", tmp_path / "audit.log.1"
    log = AuditFile(path)
    log.write({"n": 1})
    path.rename(moved)
    log.write({"n": 2})
    log.reopen()
    log.write({"n": 3})
    assert (lines(moved), lines(path)) == ([{"n": 1}, {"n": 2}], [{"n": 3}])
    assert (verify([path, moved]).findings, verify([moved, path]).chained) == ([], 3)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        log.reopen()
    log.write({"n": 4})
    log.close()


def test_a_full_disk_refuses_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """A device that is always full: the trail says so, and holds the event."""
    attempts: list[None] = []
    trail = AuditTrail(AuditFile(Path("/dev/full")), lambda: attempts.append(None))
    trail.record({"n": 1}, is_refusal=False)
    with pytest.raises(Exception, match="audit log cannot be written"):
        trail.check()
    assert len(attempts) == 2
    trail.close()
    caplog.clear()


HALF_A_LINE = """
import json, resource, sys
from pathlib import Path
from svc_cluster.base.audit_trail import AuditTrail
from svc_cluster.cli.processes.audit_file import AuditFile

path = Path(sys.argv[1])
trail = AuditTrail(AuditFile(path))
trail.record({"n": 1}, is_refusal=False)
full = path.stat().st_size + 5
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
trail.record({"n": 2}, is_refusal=False)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
trail.record({"n": 3}, is_refusal=False)
"""


def test_a_line_cut_short_is_taken_back_and_written_again(tmp_path: Path) -> None:
    """Where the file's size is limited in the middle of a line, nothing of it stays, and the whole
    follows once there is room."""
    path = tmp_path / "audit.log"
    command = [sys.executable, "-c", HALF_A_LINE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert lines(path) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_the_setting_names_a_file_or_the_log(tmp_path: Path) -> None:
    """A file that cannot be made is told in one sentence with its key."""
    assert isinstance(audit_sink(None), LogSink)
    with pytest.raises(SettingsError, match=r"audit_log .*missing/audit\.log cannot be written"):
        audit_sink(str(tmp_path / "missing" / "audit.log"))


def test_secrets_are_taken_out_of_any_line() -> None:
    """By their shape, and by the word in front of them; what surrounds them stays."""
    secret = secret_text(os.urandom(32))
    for text in (secret, f"Bearer {secret}", f'"authorization": "bearer {secret[5:]}"'):
        line = redacted(json.dumps({"event": "x", "reason": text, "n": 1}))
        assert secret[5:48] not in line
        assert json.loads(line)["n"] == 1
    for text in ("svcr_AQAB-_09", "GET /x?ticket=AQAB-_09&wait=1"):
        line = redacted(json.dumps({"event": "x", "target": text}))
        assert "AQAB" not in line
        assert line.endswith(('[redacted]"}', '[redacted]&wait=1"}'))
    assert redacted('{"event": "bearer_refused", "n": 2}') == '{"event": "bearer_refused", "n": 2}'


def test_a_line_of_the_file_is_redacted(tmp_path: Path) -> None:
    """A stream that somebody named like a secret is told without it."""
    secret = secret_text(os.urandom(32))
    log = AuditFile(tmp_path / "audit.log")
    log.write({"stream": f"logs/{secret}/x"})
    log.close()
    assert lines(tmp_path / "audit.log") == [{"stream": "logs/[redacted]/x"}]
