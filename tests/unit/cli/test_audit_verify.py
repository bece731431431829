"""`svc-cluster admin audit verify`: what was changed, taken out, put in or moved is named; what a
crash left is told from it."""

from __future__ import annotations

import fcntl
import gzip
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from svc_cluster.base.audit_chain import (
    START,
    ChainVersionError,
    chain_line,
    head_bytes,
    read_head,
    read_line,
)
from svc_cluster.cli.admin.audit_verify import FINDINGS_MAX, Report, lines_of, verify
from svc_cluster.cli.main import app
from svc_cluster.cli.processes import audit_file
from svc_cluster.cli.processes.audit_file import AuditFile, audit_sink
from svc_cluster.settings_errors import SettingsError

SAMPLES = Path(__file__).parent / "samples"
Lines = list[bytes]


def written(path: Path, count: int, first: int = 0) -> None:
    log = AuditFile(path)
    for number in range(first, first + count):
        log.write({"n": number, "stream": f"s/{number}"})
    log.close()


def after(path: Path, change: Callable[[Lines], Lines]) -> Report:
    """What is found once somebody has changed the file's lines."""
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))
    return verify([path])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Nine lines."""
    path = tmp_path / "audit.log"
    written(path, 9)
    return path


def forged(lines: Lines, place: int) -> bytes:
    """A line that its hash fits, in the place of another."""
    found = read_line(lines[place].rstrip())
    before = read_line(lines[place - 1].rstrip())
    assert found is not None
    assert before is not None
    return chain_line('{"n": "forged"}', before.head)[0]


def put(lines: Lines) -> Callable[[Lines], Lines]:
    """Whatever stood there before."""
    return lambda _: lines


def swapped(lines: Lines, one: int, other: int) -> Lines:
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda x: [*x[:3], x[3].replace(b"s/3", b"s/4"), *x[4:]], ["LOG:4: changed"]),
        (lambda x: [*x[:8], x[8].replace(b"s/8", b"s/7")], ["LOG:9: changed or inserted"]),
        (lambda x: [x[0].replace(b"s/0", b"s/7"), *x[1:]], ["LOG:1: changed"]),
        (lambda x: [*x[:3], *x[4:]], ["LOG:4: sequence 4 in front missing"]),
        (lambda x: [*x[:3], *x[6:]], ["LOG:4: sequences 4 to 6 in front missing"]),
        (lambda x: x[2:], ["LOG:1: lines in front of sequence 3 are missing"]),
        (lambda x: x[:7], ["LOG: sequences 8 to 9 at the end missing, by LOG.chain"]),
        (lambda x: [], ["LOG: sequences 1 to 9 at the end missing, by LOG.chain"]),
        (
            lambda x: [*x[:3], x[2], *x[3:]],
            ["LOG:4: sequence 3 stands behind 3: moved or repeated"],
        ),
        (
            lambda x: swapped(x, 4, 5),
            [
                "LOG:5: sequence 5 in front missing",
                "LOG:6: sequence 5 stands behind 6: moved or repeated",
            ],
        ),
        (lambda x: [*x[:3], b'{"n": 3}\n', *x[3:]], ["LOG:4: has no chain, behind"]),
        (lambda x: [*x[:3], x[3].replace(b"s/3", b"s/x"), *x[3:]], ["LOG:4: inserted"]),
        (lambda x: [*x[:3], b"garbage\n", *x[3:]], ["LOG:4: no line of the log"]),
        (lambda x: [*x[:3], b"\n", *x[3:]], ["LOG:4: no line of the log"]),
        (
            lambda x: [*x[:3], x[3][:20] + b"\n", *x[4:]],
            ["LOG:4: no line of the log", "LOG:5: sequence 4 in front missing"],
        ),
        (lambda x: [*x[:3], forged(x, 3), *x[4:]], ["LOG:4: replaced: LOG:5 follows another"]),
        (lambda x: [*x[:8], forged(x, 8)], ["LOG:9: replaced, by LOG.chain"]),
        (
            lambda x: [b'{"n": 0}\n', *x[1:]],
            ["LOG:2: lines in front of sequence 2 are missing"],
        ),
        (lambda x: [x[0].replace(b'"version": 1', b'"version":  1'), *x[1:]], ["LOG:1: changed"]),
        (lambda x: [*x[:2], x[2].replace(b"\n", b" \n"), *x[3:]], ["LOG:3: changed"]),
    ],
)
def test_what_somebody_changed_is_found_and_named(
    log: Path, change: Callable[[Lines], Lines], found: list[str]
) -> None:
    """A change of a byte, a line gone from anywhere, one too many, one of one's own making."""
    findings = [text.replace(str(log), "LOG") for text in after(log, change).findings]
    assert len(findings) == len(found), findings
    for told, expected in zip(findings, found, strict=True):
        assert told.startswith(expected)


def test_no_byte_can_be_changed_unseen(tmp_path: Path) -> None:
    """Each byte of the file in turn, by chance to any other."""
    log = tmp_path / "audit.log"
    written(log, 3)
    rng = random.Random(1)
    whole = log.read_bytes()
    for place in range(len(whole)):
        other = rng.choice([byte for byte in range(256) if byte != whole[place]])
        log.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
        try:
            report = verify([log])
        except ChainVersionError:
            continue
        is_end = place == len(whole) - 1
        assert report.findings or (is_end and report.notes), place


def test_no_lines_can_be_left_out_moved_or_repeated_unseen(log: Path) -> None:
    """Any one, and any two exchanged; the rest is in order."""
    lines = log.read_bytes().splitlines(keepends=True)
    for one, other in itertools.product(range(len(lines)), repeat=2):
        if one != other:
            assert after(log, put(swapped([*lines], one, other))).findings
        assert after(log, put([*lines[:one], *lines[one + 1 :]])).findings
        repeated = [*lines[:one], lines[other], *lines[one:]]
        assert after(log, put(repeated)).findings


def test_a_line_that_a_crash_cut_short_is_no_tampering_at_the_end_alone(log: Path) -> None:
    """As it is left, and once the next line says what was left; in the middle, or when what was
    left is gone or another, it is tampering."""
    whole = log.read_bytes()
    last = read_line(whole.splitlines()[-1])
    assert last is not None
    torn = chain_line('{"n": "torn"}', last.head)[0]
    for cut in (1, len(torn) // 2, len(torn) - 2):
        log.write_bytes(whole + torn[:cut])
        report = verify([log])
        assert (report.findings, len(report.notes)) == ([], 1)
        assert "crash" in report.notes[0]
        written(log, 2)
        report = verify([log])
        assert (report.findings, len(report.notes), report.chained) == ([], 1, 11)
        lines = log.read_bytes().splitlines(keepends=True)
        assert [*after(log, lambda x: [*x[:9], *x[10:]]).findings] == [
            f"{log}:10: what a crash had left in front of it is missing or changed"
        ]
        assert after(log, put([*lines[:9], b"{x\n", *lines[10:]])).findings
        assert after(log, put(swapped(lines, 3, 9))).findings
        log.write_bytes(whole)
        (log.parent / "audit.log.chain").write_bytes(head_bytes(last.head))


def test_a_line_that_comes_while_the_log_is_read_is_no_tampering(log: Path) -> None:
    """Its end comes when its beginning has been read: the two are no lines of their own."""
    whole = log.read_bytes()
    last = whole.splitlines()[-1]
    for seen in (1, len(last) // 2, len(last)):
        log.write_bytes(whole[: -len(last) - 1 + seen])
        found = lines_of(log)
        for _ in range(8):
            next(found)
        assert next(found) == (9, last[:seen], False)
        log.write_bytes(whole)
        assert list(found) == []
        assert [(number, ended) for number, _, ended in lines_of(log)][-1] == (9, True)


def test_only_the_newline_was_missing(log: Path) -> None:
    """The line counts as it stands, and the next one follows it."""
    log.write_bytes(log.read_bytes()[:-1])
    written(log, 1)
    report = verify([log])
    assert (report.findings, report.notes, report.chained) == ([], [], 10)


def test_a_crash_between_the_line_and_its_kept_place(log: Path) -> None:
    """The kept place is one behind, or was cut short itself: the line counts."""
    kept = log.parent / "audit.log.chain"
    for stale in (head_bytes(START), b"", kept.read_bytes()[:40]):
        kept.write_bytes(stale)
        written(log, 1)
        assert verify([log]).findings == []


def test_a_chain_goes_on_over_restarts_and_rotations(tmp_path: Path) -> None:
    """Of several processes, moved while they run and while they do not, compressed, and named in
    any order."""
    path = tmp_path / "audit.log"
    one, other = AuditFile(path), AuditFile(path)
    one.write({"n": 1})
    path.rename(tmp_path / "audit.log.2")
    other.write({"n": 2})
    one.reopen()
    one.write({"n": 3})
    other.write({"n": 4})  # was not told, and follows all the same
    assert len(path.read_text().splitlines()) == 2
    one.close()
    other.close()
    path.rename(tmp_path / "audit.log.1")
    written(path, 2)
    packed = tmp_path / "audit.log.2.gz"
    packed.write_bytes(gzip.compress((tmp_path / "audit.log.2").read_bytes()))
    files = [path, tmp_path / "audit.log.1", packed]
    for order in itertools.permutations(files):
        report = verify(list(order))
        assert (report.findings, report.chained) == ([], 6)
    report = verify([*files, tmp_path / "audit.log.chain"])
    assert report.findings == [], "the file with the last place is no log"
    assert "sequences 3 to 4" in verify([path, packed]).findings[0]


def test_what_is_taken_from_the_end_under_a_writer_is_missed(log: Path) -> None:
    """It knows what it wrote; what it writes next does not close the hole."""
    writer = AuditFile(log)
    writer.write({"n": 9})
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-3]))
    (log.parent / "audit.log.chain").unlink()
    writer.write({"n": 10})
    writer.close()
    assert "sequences 8 to 10 in front missing" in verify([log]).findings[0]


def test_a_restart_behind_a_shortened_file_does_not_close_the_hole(log: Path) -> None:
    """The kept place is further than the file."""
    assert len(after(log, lambda x: x[:5]).findings) == 1
    written(log, 1)
    assert verify([log]).findings == [f"{log}:6: sequences 6 to 9 in front missing"]


def test_files_from_before_there_was_a_chain_stay_readable(tmp_path: Path) -> None:
    """The kept sample of each form; a chain begins behind the old lines."""
    old = verify([SAMPLES / "audit-unchained.log"])
    assert (old.findings, old.old, old.chained, old.last) == ([], 2, 0, None)
    sample = verify([SAMPLES / "audit-chain-v1.log"])
    assert (sample.findings, len(sample.notes), sample.chained) == ([], 1, 3)
    path = tmp_path / "audit.log"
    path.write_bytes((SAMPLES / "audit-unchained.log").read_bytes())
    written(path, 2)
    both = verify([path])
    assert (both.findings, both.old, both.chained) == ([], 2, 2)


def test_a_chain_of_a_newer_release_is_refused(log: Path) -> None:
    """By the command, and by the process that would go on behind it."""
    for path in (log, log.parent / "audit.log.chain"):
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b'"version": 1', b'"version": 2'))
        with pytest.raises(OSError, match="version 2, this release knows 1"):
            verify([log])
        with pytest.raises(SettingsError, match="its chain has version 2"):
            audit_sink(str(log))
        path.write_bytes(whole)


def test_another_process_that_holds_the_lock_is_waited_for_and_not_for_ever(log: Path) -> None:
    """Then the line counts as not written, and nothing of it is."""
    writer = AuditFile(log)
    handle = os.open(log.parent / "audit.log.chain", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError):
        writer.write({"n": 9})
    assert verify([log]).chained == 9
    os.close(handle)
    writer.write({"n": 9})
    writer.close()
    assert verify([log]).findings == []


def test_findings_are_bounded(tmp_path: Path) -> None:
    """Of a file that is garbage, some are told and the others counted."""
    path = tmp_path / "audit.log"
    written(path, 300)
    report = after(path, lambda x: [each.replace(b"s/", b"t/") for each in x])
    assert (len(report.findings), report.untold) == (FINDINGS_MAX, 300 - FINDINGS_MAX)


KILLED = """
import sys
from pathlib import Path
from svc_cluster.cli.processes.audit_file import AuditFile
log = AuditFile(Path(sys.argv[1]))
number = 0
print("ready", flush=True)
while True:
    log.write({"n": number, "filling": "x" * (number % 500)})
    number += 1
"""


def test_processes_that_are_killed_leave_a_whole_chain(tmp_path: Path) -> None:
    """Two at a time that write as fast as they can, killed in the middle, again and again."""
    path = tmp_path / "audit.log"
    for _ in range(4):
        pair = [
            subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in pair:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        size = path.stat().st_size
        while path.stat().st_size < size + 200_000:
            os.sched_yield()
        for process in pair:
            process.kill()
            process.communicate()
    report = verify([path])
    assert report.findings == []
    assert report.chained > 100


def test_the_command_says_what_it_found(log: Path) -> None:
    """Status 0 with the last place, 1 with each finding, 2 for what cannot be read."""
    runner = CliRunner()
    said = runner.invoke(app, ["admin", "audit", "verify", str(log)])
    head = read_head((log.parent / "audit.log.chain").read_bytes())
    assert head is not None
    assert (said.exit_code, f"sequence 9, hash {head.digest}" in said.output) == (0, True)
    after(log, lambda x: [*x[:3], *x[4:]])
    said = runner.invoke(app, ["admin", "audit", "verify", str(log)])
    assert (said.exit_code, f"{log}:4: sequence 4 in front missing" in said.output) == (1, True)
    said = runner.invoke(app, ["admin", "audit", "verify", str(log.parent / "none")])
    assert said.exit_code == 2


def test_events_are_told_as_they_were(log: Path) -> None:
    """The chain is one member more, and the last."""
    for number, line in enumerate(log.read_text().splitlines()):
        event = json.loads(line)
        assert list(event)[-1] == "chain"
        assert list(event["chain"])[-1] == "hash"
        assert (event["n"], event["chain"]["sequence"]) == (number, number + 1)
    longest = max(len(line) for line in log.read_bytes().splitlines())
    assert 10 * longest <= audit_file.TAIL_BYTES_MAX


def test_a_damaged_archive_is_no_finding(tmp_path: Path) -> None:
    """Status 1 says that lines were changed; a file that cannot be unpacked has none to be read."""
    written(tmp_path / "audit.log", 200)
    packed = bytearray(gzip.compress((tmp_path / "audit.log").read_bytes()))
    for place in range(12, len(packed) - 8, max(1, len(packed) // 40)):
        damaged = bytearray(packed)
        damaged[place] ^= 0xFF
        damaged[place + 1] ^= 0xFF
        path = tmp_path / "audit.log.gz"
        path.write_bytes(damaged)
        ran = CliRunner().invoke(app, ["admin", "audit", "verify", str(path)])
        assert (ran.exit_code, isinstance(ran.exception, SystemExit)) == (2, True), place
        assert "cannot be read" in ran.output
