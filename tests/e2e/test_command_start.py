"""How the command begins: a Ctrl-C before it is loaded, and descriptors that are closed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60.0
LOADED = b"import time:"
"""A line on standard error for each module that has been loaded."""
CLOSED = "Bad file descriptor"
SIZE = ("size", "--streams", "1", "--rate", "1", "--retention", "1h")


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}


def hear_interrupts() -> None:
    """Whoever started the tests in the background has them pass over Ctrl-C, and their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (("basin", "list"), "svc_cluster.cli.terminal"),
        (("stream", "append", "first-basin/s"), "asyncio.base_events"),
        (("stream", "append", "first-basin/s"), "typer"),
        (("stream", "append", "first-basin/s"), "svc_cluster.client.service_client"),
        (("stream", "append", "first-basin/s"), "svc_cluster.cli.data.data_app"),
        (("config", "schema", "node"), "svc_cluster.cli.admin.wal_inspect"),
        (("local",), "svc_cluster.cli.main"),
        (("backup", "list", "--at", "/nowhere"), "svc_cluster.cli.config"),
        (("node",), "svc_cluster.cli.processes"),
    ],
)
def test_an_interrupt_while_it_is_loaded_is_quiet(
    tmp_path: Path, arguments: tuple[str, ...], module: str
) -> None:
    """With status 130 and without a word, whatever has been loaded by then. The interpreter tells
    what it loads, so that the moment is a place in the program."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "svc_cluster", *arguments],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.rpartition(b"|")[2].strip() == module.encode():
            break
    else:
        pytest.fail(f"{module} was not loaded")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SECONDS_MAX)
    told = [line for line in err.splitlines() if not line.startswith(LOADED)]
    assert (process.returncode, out, told) == (130, b"", [])


@pytest.mark.parametrize(
    ("kept", "status"), [("GeneratorExit", 130), ("KeyboardInterrupt", 7)], ids=["passed", "caught"]
)
def test_an_interrupt_within_an_evaluated_text_is_one_as_any_other(
    tmp_path: Path, kept: str, status: int
) -> None:
    """The interpreter remembers it, and would end the process by the signal. The status is 130
    where the command lets it pass, and the command's own where it has caught it."""
    (tmp_path / "annotated.py").write_text(
        "import signal\n"
        "from svc_cluster import __main__ as begun\n"
        "def command():\n"
        "    try:\n"
        "        eval('signal.raise_signal(signal.SIGINT)')\n"
        f"    except {kept}:\n"
        "        raise SystemExit(7) from None\n"
        "begun._command = lambda group: command\n"
        "begun.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "annotated"],
        env=environment(tmp_path) | {"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        preexec_fn=hear_interrupts,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")


def test_who_is_started_to_pass_over_interrupts_does_so(tmp_path: Path) -> None:
    """As in the background of a script: neither while it is loaded nor behind it is it ended."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"trap '' INT; exec {sys.executable} -X importtime -m svc_cluster "
         f"{' '.join(SIZE)} -o json"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if line.rpartition(b"|")[2].strip() == b"svc_cluster.cli.terminal":
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, out[:22]) == (0, b'{"records_per_second":')


def shell(home: Path, line: str) -> tuple[int, str, str]:
    """What a shell runs, in which `svc-cluster` is the command."""
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("svc-cluster", f"{sys.executable} -m svc_cluster")],
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize(
    "asked",
    [
        " ".join(SIZE),
        "profile list",
        "config schema node",
        "bench list",
        "completion bash",
        "admin new-token",
        "stream read --help",
        "",
        "basin",
        "admin",
    ],
)
def test_an_output_that_cannot_be_written_is_named_in_one_line(tmp_path: Path, asked: str) -> None:
    """Where it is closed, and where it is a file on a full disk: with status 1."""
    told = f"svc-cluster: the output: {CLOSED}\n"
    assert shell(tmp_path, f"svc-cluster {asked} >&-") == (1, "", told)
    full = "svc-cluster: the output: No space left on device\n"
    assert shell(tmp_path, f"svc-cluster {asked} >/dev/full") == (1, "", full)


def test_closed_descriptors_are_not_taken_by_anything_else(tmp_path: Path) -> None:
    """A closed input is told as the input, not as one without records; without standard error the
    status is the same; with none of the three it is, too."""
    away = "--url http://127.0.0.1:9 --patience 0"
    appended = f"svc-cluster stream append first-basin/s {away}"
    assert shell(tmp_path, f"{appended} <&-") == (
        1,
        "",
        f"svc-cluster: standard input cannot be read: {CLOSED} (nothing was appended before it)\n",
    )
    assert shell(tmp_path, "svc-cluster apply -f - <&-") == (
        1,
        "",
        f"svc-cluster: standard input cannot be read: {CLOSED}\n",
    )
    for asked, status in ((appended, 1), ("svc-cluster --version", 1), ("svc-cluster profil", 2)):
        assert shell(tmp_path, f"{asked} <&- >&- 2>&-") == (status, "", "")


def test_an_input_that_cannot_be_read_is_told_as_the_input(tmp_path: Path) -> None:
    """A directory, before anything is asked; a file that is none of declarations, by its name."""
    assert shell(tmp_path, "svc-cluster stream append first-basin/s /tmp") == (
        2,
        "",
        "svc-cluster: /tmp cannot be read: Is a directory\n",
    )
    status, out, err = shell(tmp_path, "echo '[' | svc-cluster apply -f -")
    assert (status, out) == (1, "")
    assert err.startswith("svc-cluster: standard input is not YAML: ")


def test_a_host_that_nobody_knows_is_told_in_the_resolvers_words(tmp_path: Path) -> None:
    """`.invalid` never is one."""
    status, out, err = shell(tmp_path, "svc-cluster basin list --url http://nohost.invalid")
    assert (status, out) == (1, "")
    assert err.startswith("svc-cluster: http://nohost.invalid does not answer (")
    assert "Unknown error" not in err
