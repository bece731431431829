"""What the command says, and with which status it ends, where a server is away, does not believe it
or is not believed; and how it ends where nobody reads it any more."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from tests.integration.processes import in_loop, tls_cluster

SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    """Under TLS, with a CA that nobody knows; requests need no token."""
    directory = tmp_path_factory.mktemp("command") / "cluster"
    with tls_cluster(directory, ["first-basin"]) as own:
        yield own


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "svc_cluster", *arguments]


def ask(environment: dict[str, str], *arguments: str, given: bytes = b"") -> tuple[int, str, str]:
    """Status, standard output and standard error."""
    done = subprocess.run(
        command(*arguments),
        env=environment,
        input=given,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_a_server_that_is_away_is_named_with_what_to_do(home: dict[str, str]) -> None:
    """By whichever way it was named; at once for what is asked once, and within the patience for an
    append, which says that nothing was appended."""
    url = f"http://127.0.0.1:{free_port()}"
    status, out, err = ask(home, "basin", "list", "--url", url)
    assert (status, out) == (1, "")
    assert err == (
        f"svc-cluster: {url} does not answer (Connection refused): see that the server runs, or "
        "name another with --url, in a profile or as S2_ACCOUNT_ENDPOINT\n"
    )
    told = ask(home | {"S2_ACCOUNT_ENDPOINT": url}, "stream", "follow", "first-basin/s")
    assert told == (1, "", err)
    status, out, err = ask(
        home,
        *("stream", "append", "first-basin/s", "--url", url, "--patience", "0.2"),
        given=b"a\n",
    )
    assert (status, out) == (1, "")
    assert err.startswith(f"svc-cluster: {url} does not answer (Connection refused)")
    assert err.endswith("these records were not appended (nothing was appended before it)\n")


def test_an_unknown_certificate_is_refused_until_its_ca_is_named(
    cluster: OwnCluster, home: dict[str, str]
) -> None:
    """The message says how; with --ca-file, in a profile, or with S2_SSL_NO_VERIFY, it is asked."""
    url = f"https://127.0.0.1:{cluster.port}"
    ca = cluster.directory / "ca" / "ca.pem"
    status, out, err = ask(home, "stream", "list", "first-basin", "--url", url)
    assert (status, out) == (1, "")
    assert err == (
        f"svc-cluster: the certificate of {url} is not trusted (unable to get local issuer "
        "certificate): name the CA that issued it with --ca-file or in a profile; that of "
        "`svc-cluster local --tls` is DATA_DIR/ca/ca.pem\n"
    )
    asked = ("stream", "list", "first-basin", "-o", "json")
    status, out, err = ask(home, *asked, "--url", url, "--ca-file", str(ca))
    assert (status, err) == (0, "")
    assert out.startswith('[{"name":"s",')
    assert ask(home, "profile", "set", "own", "--url", url, "--ca-file", str(ca))[0] == 0
    assert ask(home, *asked) == (0, out, "")
    unverified = home | {"S2_SSL_NO_VERIFY": "1"}
    assert ask(unverified, *asked, "--url", url) == (0, out, "")


def test_tls_and_none_are_told_apart(cluster: OwnCluster, home: dict[str, str]) -> None:
    """A server with TLS asked without it, and the other way round."""
    status, _, err = ask(home, "basin", "list", "--url", f"http://127.0.0.1:{cluster.port}")
    assert status == 1
    assert "went away before it had answered" in err
    assert err.endswith("a server that wants TLS is asked by https://\n")


def test_files_that_cannot_be_used_are_named(home: dict[str, str], tmp_path: Path) -> None:
    """A token file that is not there or empty, a CA that is none, a profile that is not there or
    whose file is no such file; a token is not repeated."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "words").write_text("two words")
    for arguments, told in (
        (("--token-file", "absent"), "the token file absent cannot be read: No such file"),
        (("--token-file", str(tmp_path / "empty")), "is empty: put an access token into it"),
        (("--token-file", str(tmp_path / "words")), "what is given as access token is none"),
        (("--ca-file", str(tmp_path / "words")), "words cannot be used: it holds no certificates"),
        (("--profile", "nobody"), "there is no profile 'nobody' in"),
        (("--url", "ftp://x"), "--url is 'ftp://x': use an address such as"),
    ):
        status, out, err = ask(home, "basin", "list", *arguments)
        assert (status, out) == (1, "")
        assert told in err
        assert err.count("\n") == 1
        assert "two words" not in err
    place = tmp_path / ".config" / "svc-cluster"
    place.mkdir(parents=True)
    (place / "config.toml").write_text("defautl = 1")
    status, _, err = ask(home, "basin", "list")
    assert status == 1
    assert "is not a file of profiles" in err


def test_a_reader_that_goes_away_ends_a_follower_quietly_and_at_once(
    cluster: OwnCluster, home: dict[str, str]
) -> None:
    """Also where no record comes by which it would notice."""
    environment = home | {
        "S2_ACCOUNT_ENDPOINT": f"https://127.0.0.1:{cluster.port}",
        "S2_SSL_NO_VERIFY": "1",
    }
    follower = subprocess.Popen(
        command("stream", "follow", "first-basin/s", "--seq-num", "0"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert follower.stdout is not None
    assert follower.stderr is not None
    assert ask(environment, "stream", "append", "first-basin/s", given=b"one\n")[0] == 0
    assert follower.stdout.readline() == b"one\n"
    follower.stdout.close()
    assert follower.wait(SECONDS_MAX) == 0
    assert follower.stderr.read() == b""
    follower.stderr.close()


def test_an_interrupt_ends_quietly_with_130_and_an_append_says_what_it_did(
    cluster: OwnCluster, home: dict[str, str]
) -> None:
    """A follower says nothing; an append finishes what it has read, and tells of it; half a line
    that was being typed is left out."""
    environment = home | {
        "S2_ACCOUNT_ENDPOINT": f"https://127.0.0.1:{cluster.port}",
        "S2_SSL_NO_VERIFY": "1",
    }
    made = ask(environment, "stream", "create", "first-basin/interrupted")
    assert made == (0, "stream first-basin/interrupted was made\n", "")
    follower = subprocess.Popen(
        command("stream", "follow", "first-basin/interrupted", "--seq-num", "0"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    appender = subprocess.Popen(
        command("stream", "append", "first-basin/interrupted"),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert appender.stdin is not None
    assert follower.stdout is not None
    appender.stdin.write(b"whole\nhalf")
    appender.stdin.flush()
    assert follower.stdout.readline() == b"whole\n"
    os.kill(appender.pid, signal.SIGINT)
    assert appender.wait(SECONDS_MAX) == 130
    os.kill(follower.pid, signal.SIGINT)
    assert follower.wait(SECONDS_MAX) == 130
    out, err = appender.communicate()
    assert out == b"1 record of 13 B appended to first-basin/interrupted, number 0\n"
    assert err == b""
    assert follower.communicate() == (b"", b"")


@in_loop
async def test_a_killed_gateway_loses_and_doubles_nothing(
    tmp_path: Path,
) -> None:
    """Amid an append from a pipe and a follower of the same stream the gateway gets SIGKILL, again
    and again: each line is appended once, in order, and printed once, and both end well."""
    own = OwnCluster(tmp_path / "cluster")
    own.start()
    try:
        await own.wait_ready(90.0)
        _kills(
            own, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "S2_ACCOUNT_ENDPOINT": own.url}
        )
    finally:
        own.end()


KILLS = 3
LINES_BETWEEN = 1500


def _kills(own: OwnCluster, environment: dict[str, str]) -> None:
    assert ask(environment, "basin", "create", "kill-basin")[0] == 0
    assert ask(environment, "stream", "create", "kill-basin/s")[0] == 0
    count = (KILLS + 1) * LINES_BETWEEN
    follower = subprocess.Popen(
        command("stream", "follow", "kill-basin/s", "--seq-num", "0", "--count", str(count)),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    appender = subprocess.Popen(
        command("stream", "append", "kill-basin/s", "--linger", "0", "-o", "json"),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert appender.stdin is not None
    assert follower.stdout is not None
    printed: list[bytes] = []
    pids = set()
    for number in range(count):
        appender.stdin.write(b"line %d\n" % number)
        if number % LINES_BETWEEN == LINES_BETWEEN // 2 and number < KILLS * LINES_BETWEEN:
            appender.stdin.flush()
            # some of what was written before is there, what is written next is not
            while len(printed) < number // 2:
                printed.append(follower.stdout.readline())
            pid = own.file()["gateway"]["pid"]
            if pid > 0 and pid not in pids:
                os.kill(pid, signal.SIGKILL)
                pids.add(pid)
    appender.stdin.close()
    appender.stdin = None
    out, err = appender.communicate(timeout=SECONDS_MAX)
    assert (appender.returncode, err) == (0, b"")
    assert f'"records":{count},'.encode() in out
    printed += follower.stdout.readlines()
    assert follower.wait(SECONDS_MAX) == 0
    assert printed == [b"line %d\n" % number for number in range(count)]
    assert follower.stderr is not None
    assert follower.stderr.read() == b""
    follower.stdout.close()
    follower.stderr.close()
    status, text, _ = ask(environment, "stream", "read", "kill-basin/s")
    assert (status, text.encode()) == (0, b"".join(printed))
    assert len(pids) >= 2, "the gateway was hardly killed"
