"""The `s2` command as a child process, and the interface beside it to see what it has done."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

CALL_SECONDS: Final = 40.0
_FRAMING: Final = re.compile(r"[\s│×├╰─▶]+")


class NotServedError(Exception):
    """The service answered 501: it says itself that it does not do that yet."""


@dataclass(slots=True)
class Done:
    """One call that has ended. `said` is standard error as one line, without its framing."""

    status: int
    out: str
    said: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class S2Command:
    """Calls of one binary with one endpoint, in an empty home directory."""

    def __init__(self, binary: Path, url: str, home: Path) -> None:
        self._binary = str(binary)
        self._url = url
        self._numbers = itertools.count()
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "NO_COLOR": "1",
            "S2_NO_UPDATE_CHECK": "1",
            "S2_ACCESS_TOKEN": "anything",
            "S2_ACCOUNT_ENDPOINT": url,
            "S2_BASIN_ENDPOINT": url,
        }
        self.home = home

    def call(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> Done:
        """Run to the end. Raises NotServedError, and AssertionError when it takes too long."""
        try:
            process = subprocess.run(
                [self._binary, *arguments],
                input=stdin.encode(),
                capture_output=True,
                env=self._environment | dict(environment or {}),
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            words = (late.stderr or b"").decode(errors="replace")[-200:]
            raise AssertionError(f"no end after {CALL_SECONDS:.0f} s: {words}") from late
        said = _FRAMING.sub(" ", process.stderr.decode(errors="replace")).strip()
        if process.returncode != 0 and "not_implemented" in said:
            raise NotServedError(said)
        return Done(process.returncode, process.stdout.decode(errors="replace"), said)

    def ok(
        self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> Done:
        """The same, and it must end well."""
        done = self.call(*arguments, stdin=stdin, environment=environment)
        assert done.status == 0, f"status {done.status}: {done.said[:300]}"
        return done

    def refused(self, *arguments: str, says: str, stdin: str = "") -> None:
        """The same, and it must end with an error that says so."""
        done = self.call(*arguments, stdin=stdin)
        assert done.status != 0, f"was not refused: {done.out[:200]} {done.said[:200]}"
        assert says in done.said, f"expected {says!r}, was told: {done.said[:300]}"

    @contextlib.contextmanager
    def following(self, *arguments: str) -> Iterator[Following]:
        """Run beside the caller; interrupted at the end."""
        process = subprocess.Popen(
            [self._binary, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment,
        )
        following = Following(process)
        try:
            yield following
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(CALL_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            following.end()

    # -- what is there already, made and seen without the command

    def api(self, method: str, path: str, body: Any = None, basin: str | None = None) -> Any:
        """A plain request of the S2 dialect. The parsed body; raises AssertionError from 400 on."""
        parts = urlsplit(self._url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=CALL_SECONDS)
        headers = {"s2-basin": basin} if basin else {}
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["content-type"] = "application/json"
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        assert response.status < 400, f"{method} {path}: {response.status} {answer.decode()}"
        return json.loads(answer) if answer else None

    def new_name(self, kind: str) -> str:
        return f"{kind}-{next(self._numbers):04d}"

    def new_basin(self, **config: Any) -> str:
        name = self.new_name("acceptance-basin")
        self.api("POST", "/v1/basins", {"basin": name, "config": config})
        return name

    def new_stream(self, basin: str, bodies: list[str] | None = None, **config: Any) -> str:
        name = self.new_name("stream")
        self.api("POST", "/v1/streams", {"stream": name, "config": config}, basin)
        if bodies:
            records = [{"body": body} for body in bodies]
            self.api("POST", f"/v1/streams/{name}/records", {"records": records}, basin)
        return name

    def records(self, basin: str, stream: str) -> list[dict[str, Any]]:
        """All that a stream holds, oldest first."""
        path = f"/v1/streams/{quote(stream, safe='')}/records"
        tail = self.api("GET", f"{path}/tail", basin=basin)["tail"]["seq_num"]
        found: list[dict[str, Any]] = []
        after = 0
        while after < tail:
            page = self.api("GET", f"{path}?seq_num={after}&count=1000", basin=basin)["records"]
            if not page:
                break
            found += page
            after = page[-1]["seq_num"] + 1
        return found

    def bodies(self, basin: str, stream: str) -> list[str]:
        return [record.get("body", "") for record in self.records(basin, stream)]


class Following:
    """A command that goes on, and the lines it has printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.lines: list[str] = []
        """What it has printed so far."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def end(self) -> None:
        self._reader.join(CALL_SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()

    def wait_lines(self, expected: list[str]) -> None:
        """Until exactly these lines were printed."""
        end = time.monotonic() + CALL_SECONDS
        while self.lines != expected:
            assert self.lines == expected[: len(self.lines)], f"printed {self.lines[-3:]}"
            assert time.monotonic() < end, f"only {len(self.lines)} lines came"
            assert self._process.poll() is None, "it ended by itself"
            time.sleep(0.02)
