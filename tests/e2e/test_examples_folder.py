"""What people take with them from `examples/` does what it says, through kills of its servers.

The examples run in an environment of their own (.venv/clients) against real processes that ask for
access tokens; the model is a fake one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from svc_cluster.lab.own_cluster import OwnCluster
from svc_cluster.model.access_secret import secret_text
from tests.contract.access import Account
from tests.e2e.browser import Browser, Site, installed, until

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CLIENTS = Path(sys.prefix) / "clients" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "clients"
LINES_MAX = 150
EVENTS = 3000
LINE_ENDS = "\u0085\u2028\u2029"
"""What the fake model ends each event with: not what ends a line of events, nor of a pipe."""
SECONDS = 60.0
SECRET = secret_text(bytes(range(32)))
BASIN = "of-the-examples"

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not CLIENTS.exists(), reason="no .venv/clients: run `make setup`"),
]


class Place:
    """A cluster that asks for tokens, with a basin that makes streams by itself."""

    def __init__(self, directory: Path) -> None:
        self.token_file = directory / "root-token"
        self.token_file.write_text(SECRET)
        self.token_file.chmod(0o600)
        options = ["--auth", "--root-token-file", str(self.token_file)]
        self.cluster = OwnCluster(directory / "cluster", nodes=3, options=options)
        self.cluster.start()
        try:
            asyncio.run(self.cluster.wait_ready(60.0))
            made = {
                "create_stream_on_append": True,
                "create_stream_on_read": True,
                "default_stream_config": {"retention_policy": {"infinite": {}}},
            }
            with Account(self.cluster.url, directory) as account:
                answer = account.ask("POST", "/v1/basins", {"basin": BASIN, "config": made}, SECRET)
                assert answer.status == 201, answer
        except BaseException:
            print(self.cluster.log_tail())
            self.cluster.end()
            raise

    def kill_gateway(self) -> None:
        """kill -9, and until the one that takes its place answers."""
        pid = int(self.cluster.file()["gateway"]["pid"])
        os.kill(pid, signal.SIGKILL)
        until(lambda: int(self.cluster.file()["gateway"]["pid"]) not in (0, pid))
        asyncio.run(self.cluster.wait_ready(SECONDS))

    def start(self, script: str, *arguments: object) -> subprocess.Popen[str]:
        """A script of `clients/`, with the place in front of its arguments."""
        words = [self.cluster.url, self.token_file, BASIN, *arguments]
        return subprocess.Popen(
            [str(CLIENTS), str(SCRIPTS / script), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(EXAMPLES), "DJANGO_SETTINGS_MODULE": ""},
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    opened = Place(tmp_path_factory.mktemp("examples"))
    yield opened
    opened.cluster.end()


def lines_of(output: IO[str] | None, count: int) -> list[str]:
    """So many lines of what a process says; fewer where it ends before."""
    assert output is not None
    found: list[str] = []
    while len(found) < count and (line := output.readline()):
        found.append(line.rstrip("\n"))
    return found


def ended(process: subprocess.Popen[str], more: str = "") -> str:
    """What else it says; it must end with 0."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:  # `communicate` would skip what was read ahead of the lines asked for
        process.stdin.write(more)
        process.stdin.close()
        said, errors = process.stdout.read(), process.stderr.read()
        assert process.wait(SECONDS) == 0, said + errors
    return said


def test_examples_are_short() -> None:
    """Nobody takes with them what they cannot read: each file has less than 150 lines."""
    found = [path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".js")]
    assert len(found) >= 5
    long = {path.name: path.read_text().count("\n") for path in found}
    assert {name: lines for name, lines in long.items() if lines >= LINES_MAX} == {}


def test_a_run_outlives_its_workers_and_the_gateway(place: Place) -> None:
    """Workers are killed with SIGKILL at a third and at two thirds, the gateway between; who looks
    on over events sees every event of the model once and in order, as does who comes later."""
    stream = "runs/1 of them"
    follower = place.start("example_follower.py", stream)
    seen: list[str] = []
    killed = 0
    try:
        for goal in (EVENTS // 6, EVENTS // 3):
            worker = place.start("example_worker.py", stream, EVENTS)
            seen += lines_of(follower.stdout, goal)
            worker.kill()
            worker.communicate()
            killed += worker.returncode == -signal.SIGKILL
        worker = place.start("example_worker.py", stream, EVENTS)
        place.kill_gateway()
        _, errors = worker.communicate(timeout=SECONDS)
        if worker.returncode == 3:  # what the one before it sent came behind
            worker = place.start("example_worker.py", stream, EVENTS)
            _, errors = worker.communicate(timeout=SECONDS)
        assert worker.returncode == 0, errors
        seen += ended(follower).split("\n")[:-1]
    finally:
        follower.kill()
    expected = [f"{number} token {number} of {EVENTS}{LINE_ENDS}" for number in range(EVENTS)]
    assert seen == expected
    assert killed == 2, "a worker had ended before it was killed: give the model more to say"
    assert ended(place.start("example_follower.py", stream)).split("\n")[:-1] == expected


def test_of_two_workers_of_a_run_one_goes_on(place: Place) -> None:
    """Both write the same run at once: it is there once, and one of them is told."""
    workers = [place.start("example_worker.py", "runs/2", EVENTS) for _ in range(2)]
    for worker in workers:
        worker.communicate(timeout=SECONDS)
    assert sorted(worker.returncode for worker in workers) in ([0, 0], [0, 3])
    said = ended(place.start("example_follower.py", "runs/2")).split("\n")[:-1]
    assert said == [f"{number} token {number} of {EVENTS}{LINE_ENDS}" for number in range(EVENTS)]


def test_a_batch_is_appended_once_whatever_dies(place: Place) -> None:
    """The gateway and the leader of the basin die while 60 batches are appended."""
    appender = place.start("example_once.py", "once", 60)
    lines_of(appender.stdout, 15)
    place.kill_gateway()
    lines_of(appender.stdout, 15)
    place.cluster.kill_node(asyncio.run(place.cluster.wait_leader(BASIN)))
    ended(appender)
    asyncio.run(place.cluster.wait_ready(SECONDS))
    follower = place.start("example_follower.py", "once")
    try:
        seen = lines_of(follower.stdout, 120)
    finally:
        follower.kill()
        follower.communicate()
    assert seen == [f"{number} {number // 2}.{number % 2}" for number in range(120)]


def test_an_agents_history_is_kept(place: Place) -> None:
    """With the framework's own runner, and three that take the last item at the same time."""
    assert "an agent's history: ok" in ended(place.start("example_agents.py"))


def test_groups_of_channels_lose_nothing(place: Place) -> None:
    """Two layers, four consumers, the gateway killed between two halves."""
    script = place.start("example_channels.py")
    assert lines_of(script.stdout, 1) == ["half"], script.communicate()
    place.kill_gateway()
    assert "a channel layer: ok" in ended(script, "\n")


def test_a_page_appends_once_and_follows_through_a_kill(place: Place, tmp_path: Path) -> None:
    """In a real browser, 200 batches, the gateway killed among them, each read ticket good for a
    second only."""
    installed()
    module = (EXAMPLES / "browser/resumable.js").read_text()
    script = """
      const examples = await import("/examples.js");
      const [service, token, basin, stream] = given.place;
      const newTicket = async () => {
        const answer = await fetch(`${service}/v1/read-tickets`, {
          method: "POST",
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
          body: JSON.stringify({ basin, streams: { exact: stream }, expires_in_secs: 1 }),
        });
        if (!answer.ok) throw new Error(String(answer.status));
        return (await answer.json()).read_ticket;
      };
      window.seen = []; window.starts = []; window.done = false; window.failed = null;
      const follow = () => {
        window.end = examples.follow(service, basin, stream, newTicket,
          (record) => window.seen.push(`${record.seq_num} ${record.body}`),
          (why) => { window.failed = why; });
      };
      (async () => {
        for (let number = 0; number < 200; number += 1) {
          const bodies = [`${number}.0`, `${number}.1`];
          window.starts.push(await examples.append(service, token, basin, stream, bodies));
          if (number === 0) follow(); // a ticket makes no stream
        }
        window.done = true;
      })().catch((error) => { window.failed = String(error); });
    """
    with Site(module) as site, Browser(tmp_path / "profile") as browser:
        browser.open(site.url + "/")
        browser.run(script, place=[place.cluster.url, SECRET, BASIN, "of a page"])
        until(lambda: browser.run("return window.starts.length > 50;"))
        place.kill_gateway()
        until(lambda: browser.run("return window.done || window.failed;"))
        assert browser.run("return window.failed;") is None
        until(lambda: browser.run("return window.seen.length;") >= 400)
        browser.run("window.end();")
        seen = browser.run("return window.seen;")
        starts = browser.run("return window.starts;")
    assert starts == list(range(0, 400, 2))
    assert seen == [f"{number} {number // 2}.{number % 2}" for number in range(400)]
